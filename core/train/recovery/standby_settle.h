/* Changing which devices are on standby (standby.h), before a step. */
#ifndef DPTI_STANDBY_SETTLE_H
#define DPTI_STANDBY_SETTLE_H

#include "dptrain.h"

typedef struct dpt_trainer dpt_trainer;

/* Nothing in flight: puts devices on standby, wakes them, or refreshes their replicas, where that
   is due. */
DPT_CHECK_RESULT dpt_status dpti_standby_settle(dpt_trainer *trainer);

#endif
