/* The settings of a training as texts, for its log, for TensorBoard and for its report. */
#ifndef DPTI_TOLD_H
#define DPTI_TOLD_H

#include "checkpoint/settings.h"
#include "io/log.h"
#include "train/components/schedule.h"
#include "train/state/trainer.h"

typedef struct dpti_told {
    dpti_settings all;
    char values[DPTI_SETTINGS][DPTI_SETTING_BYTES];
    dpti_log_setting list[DPTI_SETTINGS]; /* all.n of them; they point into this struct */
} dpti_told;

/* The caller frees the result with free().  NULL if there is no memory. */
dpti_told *dpti_tell_settings(const dpt_trainer *trainer, const dpti_schedule *schedule);

#endif
