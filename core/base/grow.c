#include "base/grow.h"

#include "base/size.h"

#include <stdlib.h>

enum { FIRST_CAPACITY = 16 };

void *dpti_grow(void *items, size_t n, size_t *capacity, size_t item_bytes)
{
    size_t wanted = FIRST_CAPACITY, n_bytes;
    if (n < *capacity) return items;
    if (*capacity > 0 && !dpti_multiply(2, *capacity, &wanted)) return NULL;
    if (!dpti_multiply(wanted, item_bytes, &n_bytes)) return NULL;
    void *grown = realloc(items, n_bytes);
    if (grown) *capacity = wanted;
    return grown;
}
