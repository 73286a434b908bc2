/* Settings as a person reads them. */
#include "fit/told.h"

#include <stdlib.h>

dpti_told *dpti_tell_settings(const dpt_trainer *trainer, const dpti_schedule *schedule)
{
    dpti_told *told = calloc(1, sizeof *told);
    if (!told) return NULL;
    dpti_settings_of_trainer(trainer, &told->all);
    dpti_settings_of_course(&schedule->options, schedule->lr, schedule->total_steps, &told->all);
    for (size_t i = 0; i < told->all.n; i++) {
        dpti_setting_show(told->all.list[i].text, told->values[i], sizeof told->values[i]);
        told->list[i] = (dpti_log_setting){.name = told->all.list[i].key, .value = told->values[i]};
    }
    return told;
}
