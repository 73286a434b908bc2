/* What a job tells processes that come (arrivals.h), and the public functions on them. */
#include "collective/arrivals.h"

#include "base/parse.h"
#include "base/print.h"
#include "context/context.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 160 }; /* of the lines before the run header */

static const dpt_transport_guests *guests_of(const dpti_processes *processes)
{
    return dpti_processes_link(processes)->transport->guests;
}

static void write_introduction(const dpt_context *context, char out[LINE_BYTES])
{
    snprintf(out, LINE_BYTES, "%s%s%s", DPT_VERSION, *context->purpose ? " " : "",
             context->purpose);
}

size_t dpti_arrivals_most(const dpti_processes *processes)
{
    const dpt_transport_guests *guests = guests_of(processes);
    return guests ? guests->most(dpti_processes_link(processes)->self)
                  : dpti_processes_first_count(processes);
}

void dpti_arrivals_note(dpt_context *context, size_t part, char *lines)
{
    free(context->told_headers[part]);
    context->told_headers[part] = lines;
}

static size_t count_lines(const char *text)
{
    size_t n = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++)
        n++;
    return n;
}

dpt_status dpti_arrivals_tell(dpt_context *context, size_t room)
{
    const dpti_processes *p = context->processes;
    char introduction[LINE_BYTES];
    dpt_error error = {.status = DPT_OK};
    if (!p || !context->invitation || dpti_arrivals_most(p) == dpti_processes_first_count(p))
        return DPT_OK;
    write_introduction(context, introduction);
    const char *headers[DPTI_TOLD_HEADERS];
    size_t n = 0;
    for (size_t i = 0; i < DPTI_TOLD_HEADERS; i++) {
        headers[i] = context->told_headers[i] ? context->told_headers[i] : "";
        n += count_lines(headers[i]);
    }
    char *text = dpti_format("%s\n%zu\n%zu\n%s%s%s", introduction, room, n, headers[0], headers[1],
                             context->invitation);
    if (!text) return dpt_fail(context, DPT_E_NO_MEMORY, "no memory for processes that come");
    const dpt_status status = guests_of(p)->tell(dpti_processes_link(p)->self, text, &error);
    free(text);
    return status == DPT_OK ? DPT_OK : dpti_context_fail(context, NULL, &error);
}

bool dpti_arrivals_wait(const dpt_context *context)
{
    const dpti_processes *p = context->processes;
    if (!p || !context->invitation || !guests_of(p)) return false;
    return guests_of(p)->waits(dpti_processes_link(p)->self);
}

/* ---- The process that comes ------------------------------------------------------------------ */

/* What was told; NULL if this process has not come. */
static const char *told(const dpt_context *context)
{
    const dpti_processes *p = context->processes;
    if (!p || !dpti_processes_come(p)) return NULL;
    return guests_of(p)->told(dpti_processes_link(p)->self);
}

/* Copies the first line of a text without its end; returns what follows, or NULL. */
static const char *take_line(const char *text, char out[LINE_BYTES])
{
    const char *end = text ? strchr(text, '\n') : NULL;
    const size_t length = end ? (size_t)(end - text) : 0;
    *out = '\0';
    if (!end || length >= LINE_BYTES) return NULL;
    memcpy(out, text, length);
    out[length] = '\0';
    return end + 1;
}

dpt_status dpti_arrivals_check(dpt_context *context, const char *prefix)
{
    char mine[LINE_BYTES], theirs[LINE_BYTES];
    dpt_error error = {.status = DPT_OK};
    write_introduction(context, mine);
    (void)take_line(told(context), theirs);
    if (strcmp(mine, theirs) == 0) return DPT_OK;
    dpti_processes_give_up(context->processes);
    (void)DPT_FAIL(&error, DPT_E_INVALID,
                   "the job is dptrain %s, this process is dptrain %s; start the same command and "
                   "version",
                   theirs, mine);
    return dpti_context_fail(context, prefix, &error);
}

/* Returns what follows the first lines, at the run header, and the number of its lines; NULL if
   there is none. */
static const char *find_header(const dpt_context *context, size_t *n)
{
    char line[LINE_BYTES];
    const char *text = take_line(told(context), line);
    if (text) text = take_line(text, line);
    if (text) text = take_line(text, line);
    return text && dpti_parse_size(line, 0, SIZE_MAX, n) ? text : NULL;
}

const char *dpti_arrivals_told_value(const dpt_context *context, const char *name)
{
    const size_t length = strlen(name);
    size_t n = 0;
    const char *text = find_header(context, &n);
    for (; text && n > 0; n--) {
        const char *end = strchr(text, '\n');
        if (!end) return NULL;
        if (strncmp(text, name, length) == 0 && text[length] == '\t') return text + length + 1;
        text = end + 1;
    }
    return NULL;
}

bool dpt_process_comes(const dpt_context *context)
{
    return context->processes && dpti_processes_come(context->processes);
}

const char *dpt_process_told(const dpt_context *context)
{
    size_t n = 0;
    const char *text = find_header(context, &n);
    for (; text && n > 0; n--) {
        const char *end = strchr(text, '\n');
        text = end ? end + 1 : NULL;
    }
    return text;
}

size_t dpt_process_room(const dpt_context *context)
{
    char line[LINE_BYTES];
    size_t room = 0;
    const char *text = take_line(told(context), line);
    if (!text) return SIZE_MAX;
    (void)take_line(text, line);
    return dpti_parse_size(line, 0, SIZE_MAX, &room) ? room : 0;
}

size_t dpt_process_most(const dpt_context *context)
{
    return context->processes ? dpti_arrivals_most(context->processes) : 1;
}

size_t dpt_process_may_come(const dpt_context *context)
{
    const dpti_processes *p = context->processes;
    return p && guests_of(p) ? guests_of(p)->left(dpti_processes_link(p)->self) : 0;
}

/* ---- The job --------------------------------------------------------------------------------- */

dpt_status dpt_process_invite(dpt_context *context, const char *text)
{
    char *copy = dpti_format("%s", text ? text : "");
    if (!copy) return dpt_fail(context, DPT_E_NO_MEMORY, "no memory for processes that come");
    free(context->invitation);
    context->invitation = copy;
    return DPT_OK;
}
