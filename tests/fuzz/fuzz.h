/* Declarations that all fuzzers of readers share, LLVMFuzzerTestOneInput among them. */
#ifndef DPT_TEST_FUZZ_H
#define DPT_TEST_FUZZ_H

#include "backend.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void require(bool held)
{
    if (!held) abort();
}

/* Of a file called "input": refused in one printable line that names it. */
static inline void require_refusal(dpt_status status, const dpt_error *error)
{
    require(status == DPT_E_FORMAT || status == DPT_E_NO_MEMORY);
    require(strncmp(error->message, "input", 5) == 0 ||
            strncmp(error->message, "no memory", 9) == 0);
    for (const char *c = error->message; *c; c++)
        require(*c >= ' ' && *c <= '~');
}

static inline bool looks_like_gzip(const uint8_t *data, size_t size)
{
    return size >= 2 && data[0] == 0x1f && data[1] == 0x8b;
}

#endif
