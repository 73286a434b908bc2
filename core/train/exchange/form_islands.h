/* Forming and ending islands (islands.h), on the caller's thread with nothing in flight. */
#ifndef DPTI_FORM_ISLANDS_H
#define DPTI_FORM_ISLANDS_H

#include "dptrain.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct dpt_trainer dpt_trainer;

/* Before a step: gives up islands that have failed, and forms islands where that is due.  A device
   that hangs at it is left hung, and islands are due again.  false: they are due still. */
bool dpti_islands_form(dpt_trainer *trainer);
/* This worker leaves, in good order or not: its island ends. */
void dpti_islands_leave(dpt_trainer *trainer, size_t rank);
void dpti_islands_end(dpt_trainer *trainer); /* all of them */

#endif
