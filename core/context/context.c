/* A context's settings and its last failure. */
#include "context/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dpt_status dpt_context_set_precision(dpt_context *context, const char *name)
{
    char *precision = NULL;
    if (name && strcmp(name, "fp32") != 0) {
        precision = strdup(name);
        if (!precision) return dpt_fail(context, DPT_E_NO_MEMORY, "no memory for a precision");
    }
    free(context->precision);
    context->precision = precision;
    return DPT_OK;
}

size_t dpt_context_abandoned(const dpt_context *context)
{
    return context->n_abandoned;
}

const char *dpt_error_message(const dpt_context *context)
{
    return context->error.status == DPT_OK ? "no error" : context->error.message;
}

dpt_status dpt_fail(dpt_context *context, dpt_status status, const char *format, ...)
{
    /* The arguments may point into the message that is replaced. */
    dpt_error error = {.status = status};
    va_list args;
    va_start(args, format);
    dpt_error_print(&error, format, args);
    va_end(args);
    context->error = error;
    return status;
}

dpt_status dpti_context_fail(dpt_context *context, const char *prefix, const dpt_error *error)
{
    dpt_error copy = *error;
    if (copy.message[0] == '\0')
        snprintf(copy.message, sizeof copy.message, "%s", dpt_status_words(copy.status));
    if (prefix) {
        const size_t n_prefix = strnlen(prefix, 100);
        const size_t n_kept = strnlen(copy.message, sizeof copy.message - n_prefix - 3);
        memmove(copy.message + n_prefix + 2, copy.message, n_kept);
        memcpy(copy.message, prefix, n_prefix);
        memcpy(copy.message + n_prefix, ": ", 2);
        copy.message[n_prefix + 2 + n_kept] = '\0';
    }
    context->error = copy;
    return copy.status;
}

/* ---- Notices --------------------------------------------------------------------------------- */

void dpt_context_notices(dpt_context *context, dpt_notice_function *notice, void *user)
{
    context->notice = notice;
    context->notice_user = user;
}

void dpti_context_notice(const dpt_context *context, const char *format, ...)
{
    char line[1024];
    va_list args;
    if (!context || !context->notice) return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    dpt_one_line(line);
    context->notice(context->notice_user, line);
}
