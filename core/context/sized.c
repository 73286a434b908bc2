/* Structs that begin with their size (sized.h). */
#include "context/sized.h"

#include "context/context.h"

#include <string.h>

/* Whether a program can have set this size.  No struct of any release is larger than the limit: a
   size above it was never set, and nothing may be read or written by it. */
static bool is_size(size_t given)
{
    enum { MOST = 1 << 16 };
    return given >= sizeof given && given <= MOST;
}

static bool all_zero(const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i]) return false;
    return true;
}

dpt_status dpti_read_sized(const dpti_sized *what, void *out, dpt_error *error)
{
    const size_t known = what->known;
    size_t given = known;
    memset(out, 0, known);
    if (what->given) {
        memcpy(&given, what->given, sizeof given);
        if (!is_size(given))
            return DPT_FAIL(error, DPT_E_INVALID,
                            "%s.size is %zu: set it to sizeof(%s) before the call", what->name,
                            given, what->name);
        const unsigned char *bytes = what->given;
        if (given > known && !all_zero(bytes + known, given - known))
            return DPT_FAIL(error, DPT_E_INVALID,
                            "%s has a field that dptrain %s does not know: the program was built "
                            "for a later release",
                            what->name, dpt_version());
        memcpy(out, bytes, given < known ? given : known);
    }
    memcpy(out, &known, sizeof known);
    return DPT_OK;
}

dpt_status dpti_take_sized(dpt_context *context, const dpti_sized *what, void *out)
{
    dpt_error error = {.status = DPT_OK};
    if (dpti_read_sized(what, out, &error) == DPT_OK) return DPT_OK;
    return dpti_context_fail(context, NULL, &error);
}

dpt_status dpti_check_sized(dpt_context *context, const char *name, const void *out)
{
    size_t given;
    if (!out) return dpt_fail(context, DPT_E_INVALID, "the place for a %s is NULL", name);
    memcpy(&given, out, sizeof given);
    if (is_size(given)) return DPT_OK;
    return dpt_fail(context, DPT_E_INVALID, "%s.size is %zu: set it to sizeof(%s) before the call",
                    name, given, name);
}

bool dpti_give_sized(const void *from, size_t known, void *to)
{
    size_t given;
    memcpy(&given, to, sizeof given);
    if (!is_size(given)) return false;
    memset((unsigned char *)to + sizeof given, 0, given - sizeof given);
    if (given < known) known = given;
    memcpy((unsigned char *)to + sizeof given, (const unsigned char *)from + sizeof given,
           known - sizeof given);
    return true;
}
