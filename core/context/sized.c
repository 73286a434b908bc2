/* Structs that begin with their size (sized.h). */
#include "context/sized.h"

#include <string.h>

static bool all_zero(const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i]) return false;
    return true;
}

dpt_status dpti_take_sized(dpt_context *context, const dpti_sized *what, void *out)
{
    const size_t known = what->known;
    size_t given = known;
    memset(out, 0, known);
    if (what->given) {
        memcpy(&given, what->given, sizeof given);
        if (given < sizeof given)
            return dpt_fail(context, DPT_E_INVALID,
                            "%s.size is %zu: set it to sizeof(%s) before the call", what->name,
                            given, what->name);
        const unsigned char *bytes = what->given;
        if (given > known && !all_zero(bytes + known, given - known))
            return dpt_fail(context, DPT_E_INVALID,
                            "%s has a field that dptrain %s does not know: the program was built "
                            "for a later release",
                            what->name, dpt_version());
        memcpy(out, bytes, given < known ? given : known);
    }
    memcpy(out, &known, sizeof known);
    return DPT_OK;
}

bool dpti_give_sized(const void *from, void *to)
{
    size_t known, given;
    memcpy(&known, from, sizeof known);
    memcpy(&given, to, sizeof given);
    if (given < sizeof given) return false;
    memset((unsigned char *)to + sizeof given, 0, given - sizeof given);
    if (given < known) known = given;
    memcpy((unsigned char *)to + sizeof given, (const unsigned char *)from + sizeof given,
           known - sizeof given);
    return true;
}
