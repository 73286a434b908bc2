/* Readmitting devices that are ready (readmit.h). */
#ifndef DPTI_READMIT_SETTLE_H
#define DPTI_READMIT_SETTLE_H

#include "dptrain.h"

typedef struct dpt_trainer dpt_trainer;

/* Nothing in flight: readmits the devices that are ready.  One that fails is lost again, which is
   no failure of the call.  DPT_E_NO_MEMORY of the host is, and the loss of the last device. */
DPT_CHECK_RESULT dpt_status dpti_readmit_settle(dpt_trainer *trainer);

#endif
