/* Forming and ending islands (islands.h), on the caller's thread with nothing in flight. */
#ifndef DPTI_FORM_ISLANDS_H
#define DPTI_FORM_ISLANDS_H

#include "dptrain.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct dpt_trainer dpt_trainer;

/* Before a step: gives up islands that have failed, and forms islands where that is due.  If a
   device hangs meanwhile, its state is hung, and the function returns false: islands are to be
   formed again when the hung device is lost. */
bool dpti_islands_form(dpt_trainer *trainer);
/* A worker takes no part any more, whether its device can still be called or not: its island ends.
   And: all islands end. */
void dpti_islands_leave(dpt_trainer *trainer, size_t rank);
void dpti_islands_end(dpt_trainer *trainer);

#endif
