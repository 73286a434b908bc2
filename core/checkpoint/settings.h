/* The settings of a trainer, one text each under the name of its option: what decides about the
   bits of a training, but for the devices and the shares. */
#ifndef DPTI_SETTINGS_H
#define DPTI_SETTINGS_H

#include "checkpoint/run_state.h"

/* " (--OPTION)": the options of the command that a setting comes from; "" if there is none. */
void dpti_setting_option(const dpti_setting *setting, char *text, size_t n_bytes);
/* A setting's text for people: a fraction with the fewest digits that tell its float32 from all
   others, 0.9 where the text has 0.899999976; everything else as it is, cut off at n_bytes. */
void dpti_setting_show(const char *setting, char *text, size_t n_bytes);
/* Of names, kinds, extents, connections, and all numbers that decide what layers compute. */
uint32_t dpti_settings_hash_layers(const dpt_model *model);
/* Appends those of the trainer. */
void dpti_settings_of_trainer(const dpt_trainer *trainer, dpti_settings *settings);
/* Appends those of a course: the base rate, its schedule, and the steps of the whole where the
   schedule depends on them. */
void dpti_settings_of_course(const dpt_schedule *schedule, double lr, size_t total_steps,
                             dpti_settings *settings);
/* The first of `now` that is not in `then` or differs; NULL if there is none.  *was gets its text
   there, or NULL. */
const dpti_setting *dpti_settings_differ(const dpti_settings *now, const dpti_settings *then,
                                         const char **was);

#endif
