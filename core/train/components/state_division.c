/* Dividing the optimizer's state (state_division.h). */
#include "train/components/state_division.h"

#include <stdint.h>

/* The sum of the weights has at most so many bits, so that its product with a number of units of
   DPTI_STATE_PART_ALIGNMENT elements fits into 64 bits: no memory holds 2^41 units. */
enum { WEIGHT_BITS = 23 };

/* A device's weight: its bytes, in units of 2^shift. */
static uint64_t weigh(const dpti_state_holder *holder, unsigned shift)
{
    return holder->takes_part ? (uint64_t)holder->left >> shift : 0;
}

/* The smallest shift with which the weights have a sum of WEIGHT_BITS bits.  *sum: that sum. */
static unsigned find_shift(size_t n_parts, const dpti_state_holder *holders, uint64_t *sum)
{
    for (unsigned shift = 0;; shift++) {
        bool fits = true;
        *sum = 0;
        for (size_t i = 0; fits && i < n_parts; i++) {
            const uint64_t weight = weigh(&holders[i], shift);
            fits = weight >> WEIGHT_BITS == 0 && (*sum + weight) >> WEIGHT_BITS == 0;
            *sum += weight;
        }
        if (fits) return shift;
    }
}

static size_t find_first(size_t n_parts, const dpti_state_holder *holders)
{
    size_t i = 0;
    while (i + 1 < n_parts && !holders[i].takes_part)
        i++;
    return i;
}

void dpti_divide_state(size_t n, size_t n_parts, const dpti_state_holder *holders,
                       dpti_state_part *out)
{
    const uint64_t unit = DPTI_STATE_PART_ALIGNMENT, n_units = n / unit + (n % unit != 0);
    const size_t first = find_first(n_parts, holders);
    uint64_t sum, before = 0;
    const unsigned shift = find_shift(n_parts, holders, &sum);
    const bool any = sum > 0;
    size_t begin = 0;
    for (size_t i = 0; i < n_parts; i++) {
        before += any ? weigh(&holders[i], shift) : i == first;
        const uint64_t units = n_units * before / (any ? sum : 1);
        const size_t end = units == n_units ? n : (size_t)(units * unit);
        out[i] = (dpti_state_part){begin, end};
        begin = end;
    }
}
