/* The settings of a trainer: one text for each option that determines the bits of a training,
   except the devices and the shards. */
#ifndef DPTI_SETTINGS_H
#define DPTI_SETTINGS_H

#include "checkpoint/run_state.h"

/* Writes " (--OPTION)", the option of the command that sets this setting; "" if there is none. */
void dpti_setting_option(const dpti_setting *setting, char *text, size_t n_bytes);
/* Writes a setting's text for people: a fraction has the fewest digits that distinguish its
   float32 from all others, 0.9 where the text has 0.899999976.  Everything else is unchanged.  The
   result is cut at n_bytes. */
void dpti_setting_show(const char *setting, char *text, size_t n_bytes);
/* Appends the settings of the trainer. */
void dpti_settings_of_trainer(const dpt_trainer *trainer, dpti_settings *settings);
/* Appends the settings of dpt_fit: the base rate, the schedule, and the number of steps if the
   schedule depends on it. */
void dpti_settings_of_course(const dpt_schedule *schedule, double lr, size_t total_steps,
                             dpti_settings *settings);
/* Returns the first setting of `now` that is missing in `then` or differs; NULL if there is none.
 *was becomes its text in `then`, or NULL. */
const dpti_setting *dpti_settings_differ(const dpti_settings *now, const dpti_settings *then,
                                         const char **was);

#endif
