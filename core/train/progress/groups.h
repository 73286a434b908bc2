/* Groups of parameters: from the options of a trainer to a rule for each parameter. */
#ifndef DPTI_GROUPS_H
#define DPTI_GROUPS_H

#include "dptrain.h"

#include <stdint.h>

/* Makes the rules of the trainer's model (dpti_optimizer) from the options; NULL without groups.
   Errors: DPT_E_INVALID for a group that is not usable; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_trainer_take_groups(dpt_trainer *trainer,
                                                     const dpt_trainer_options *options);
/* Returns a checksum of the groups, for comparing processes; 0 without groups. */
uint64_t dpti_groups_checksum(const dpt_trainer_options *options);
/* Returns a checksum of the trainer's rules, for comparing with a checkpoint; 0 without rules. */
uint64_t dpti_rules_checksum(const dpt_trainer *trainer);

#endif
