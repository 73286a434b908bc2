#include "settling.h"

enum {
    IN_FLIGHT = 2,      /* steps */
    WARM_STEPS = 3,     /* with fixed shards: memory is touched, kernels are loaded */
    STEADY_STEPS = 8,   /* in a row without a change, enough to find a lag */
    MOST_SETTLING = 40, /* the most steps of settling */
};

dpt_status cli_next_step(dpt_trainer *trainer, dpt_step_metrics *out)
{
    while (dpt_trainer_in_flight(trainer) < IN_FLIGHT)
        DPT_TRY(dpt_trainer_submit(trainer));
    return dpt_trainer_collect(trainer, out);
}

bool cli_settling_step(cli_settling *settling, const dpt_step_metrics *step)
{
    settling->n_steps++;
    if (!settling->measured) {
        settling->settled = true;
        return settling->n_steps == WARM_STEPS;
    }
    bool calibrated = true;
    for (size_t i = 0; i < step->n_devices; i++)
        calibrated = calibrated && step->throughput[i] > 0;
    settling->n_steady = calibrated && !step->rebalance ? settling->n_steady + 1 : 0;
    settling->settled = settling->n_steady == STEADY_STEPS;
    return settling->settled || settling->n_steps == MOST_SETTLING;
}
