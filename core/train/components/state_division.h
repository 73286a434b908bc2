/* How the optimizer's state is divided over devices: arithmetic on numbers of elements and of
   bytes. */
#ifndef DPTI_STATE_DIVISION_H
#define DPTI_STATE_DIVISION_H

#include <stdbool.h>
#include <stddef.h>

/* Parts begin and end at multiples of so many elements, as parameters do in the flat buffer. */
enum { DPTI_STATE_PART_ALIGNMENT = 64 };

/* Elements [begin, end) of the flat buffer. */
typedef struct dpti_state_part {
    size_t begin, end;
} dpti_state_part;

/* A device, as the division sees it. */
typedef struct dpti_state_holder {
    bool takes_part; /* false: it gets no element */
    size_t left;     /* bytes that it has left for its part */
} dpti_state_holder;

/* Divides elements [0, n) into n_parts consecutive parts, out[i] for device i, in proportion to the
   bytes that the devices have left.  Every element is in one part.  Where no device has a byte
   left, the first one that takes part gets all elements: its failure then tells how much is
   missing.  At least one device takes part.  The result depends on the arguments alone. */
void dpti_divide_state(size_t n, size_t n_parts, const dpti_state_holder *holders,
                       dpti_state_part *out);

#endif
