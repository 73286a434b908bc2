/* What came of a committed step: its loss, its times, and who failed. */
#ifndef DPTI_MEASURE_H
#define DPTI_MEASURE_H

#include "train/state/in_flight_step.h"

typedef struct dpt_trainer dpt_trainer;

/* Adds up the outcomes of a step that is collected, and writes its metrics to *out.  Lets the
   concerns that follow measured times see the step. */
void dpti_measure_step(dpt_trainer *trainer, dpti_in_flight_step *inflight, dpt_step_metrics *out);
/* Records in the context why a step failed, the device named; DPT_OK if it did not. */
DPT_CHECK_RESULT dpt_status dpti_report_step(dpt_trainer *trainer, dpti_in_flight_step *inflight);

#endif
