/* A device that is left alone does single-launch steps (single_launch.h). */
#ifndef DPTI_ALONE_H
#define DPTI_ALONE_H

#include "dptrain.h"

typedef struct dpt_trainer dpt_trainer;

/* Nothing in flight, when it is known which devices take part: a device that is left alone does
   single-launch steps from now on.  Its program is made when the device is alone first, in the
   memory of the segmented one.  A device that is not alone any more goes back to the segmented
   program.  The bits are the same.  DPT_E_CANCELLED: the device hangs or is lost, and another
   device may be left alone. */
DPT_CHECK_RESULT dpt_status dpti_single_launch_settle(dpt_trainer *trainer);

#endif
