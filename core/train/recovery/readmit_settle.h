/* Readmitting devices that are ready (readmit.h). */
#ifndef DPTI_READMIT_SETTLE_H
#define DPTI_READMIT_SETTLE_H

#include "dptrain.h"

typedef struct dpt_trainer dpt_trainer;

/* Nothing in flight: readmits the devices that are ready.  A device
   that fails meanwhile is lost again, and the call goes on.  The call fails if host memory is short
   (DPT_E_NO_MEMORY), or if the last device is lost. */
DPT_CHECK_RESULT dpt_status dpti_readmit_settle(dpt_trainer *trainer);

#endif
