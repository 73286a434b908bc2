/* Ranges of elements, [begin, end), of an array. */
#ifndef DPTI_RANGE_H
#define DPTI_RANGE_H

#include <stddef.h>

typedef struct dpti_range {
    size_t begin, end;
} dpti_range;

static inline size_t dpti_range_size(dpti_range range)
{
    return range.end - range.begin;
}

/* Returns the elements that are in both ranges; an empty range if there are none. */
static inline dpti_range dpti_range_common(dpti_range a, dpti_range b)
{
    const size_t begin = a.begin > b.begin ? a.begin : b.begin;
    const size_t end = a.end < b.end ? a.end : b.end;
    return (dpti_range){begin, end > begin ? end : begin};
}

#endif
