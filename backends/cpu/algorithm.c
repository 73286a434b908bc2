/* The names of this backend's algorithms, and the check of a name that a person gives. */
#include "algorithm.h"

#include <string.h>

static const char *const names[] = {"direct",    "columns",   "depthwise", "winograd2",
                                    "winograd3", "winograd4", "blas",      "packed"};

dpt_status dpt_cpu_check_algorithm(const char *source, const char *text, dpt_error *error)
{
    const size_t length = strlen(text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (length > 0 && strncmp(text, names[i], length) == 0) return DPT_OK;
    return DPT_FAIL(error, DPT_E_INVALID,
                    "%s%.40s is not the beginning of direct, columns, depthwise, winograd2, "
                    "winograd3, winograd4, blas or packed",
                    source, text);
}
