/* Processes that come: between two steps training ends in memory, as when a process has died, and
   the next dpt_fit goes on with one process more (fit.h). */
#include "fit/fit.h"

#include "collective/arrivals.h"
#include "context/context.h"
#include "context/sized.h"
#include "data/data.h"
#include "graph/model.h"
#include "io/log.h"
#include "train/options.h"
#include "train/peers/header_check.h"
#include "train/peers/peers.h"
#include "train/state/trainer.h"

dpt_status dpt_process_check(const dpt_model *model, const dpt_dataset *data,
                             const dpt_trainer_options *trainer, const dpt_fit_options *fit)
{
    dpt_trainer_options options;
    dpt_fit_options course;
    if (!model || !data) return DPT_E_INVALID; /* there is no context that could tell why */
    dpt_context *context = model->context;
    if (!dpt_process_comes(context)) return DPT_OK;
    DPT_TRY(dpti_take_sized(context, &(dpti_sized){"dpt_trainer_options", trainer, sizeof options},
                            &options));
    DPT_TRY(
        dpti_take_sized(context, &(dpti_sized){"dpt_fit_options", fit, sizeof course}, &course));
    dpti_trainer_resolve(&options, data->count);
    return dpti_header_compare(model, data, &options, &course);
}

dpt_status dpti_fit_invite(dpti_fit *f)
{
    const dpt_trainer *t = f->trainer;
    const size_t most =
        t->batch_size < DPTI_SPLIT_MAX_DEVICES ? t->batch_size : (size_t)DPTI_SPLIT_MAX_DEVICES;
    if (!t->processes) return DPT_OK;
    dpti_processes_have_arrived(t->processes);
    return dpti_arrivals_tell(f->context, most > t->n_devices ? most - t->n_devices : 0);
}

bool dpti_fit_lets_in(dpti_fit *f)
{
    if (!f->trainer->processes || f->trainer->local_steps > 0) return false;
    if (dpti_arrivals_wait(f->context)) dpti_peers_request(f->trainer, DPTI_RUN_REQUEST_JOIN);
    return dpti_peers_agreed(f->trainer) & DPTI_RUN_REQUEST_JOIN;
}

/* That all have come here is settled before the messages of this job end. */
dpt_status dpti_fit_let_in(dpti_fit *f)
{
    dpti_processes *p = f->trainer->processes;
    dpt_error error = {.status = DPT_OK};
    if (!dpti_fit_lets_in(f)) return DPT_OK;
    if (dpti_processes_settle(p, &error) != DPT_OK)
        return dpti_context_fail(f->context, NULL, &error);
    dpti_processes_let_in(p);
    return dpt_fail(f->context, DPT_E_STATE, "another process joins");
}

dpt_status dpti_carried_tell_joined(dpti_fit *f)
{
    const dpt_trainer *t = f->trainer;
    char text[2 * DPTI_ID_BYTES];
    dpt_error error = {.status = DPT_OK};
    if (!t->processes || dpt_process_rank(f->context) > 0) return DPT_OK;
    const size_t last = dpti_processes_count(t->processes) - 1;
    if (!dpti_processes_is_new(t->processes, last)) return DPT_OK;
    for (size_t i = dpti_peers_firsts(t)[last]; i < t->n_devices; i++) {
        const dpti_peer *device = dpti_peers_device(t, i);
        snprintf(text, sizeof text, "process %zu (%s) has joined", last, device->host);
        const dpt_device_event event = {.size = sizeof event,
                                        .kind = DPT_DEVICE_JOINED,
                                        .device = i,
                                        .id = device->id,
                                        .step = dpt_trainer_steps(t) + 1,
                                        .status = DPT_OK,
                                        .message = text};
        dpti_fit_tell_device(f, &event);
        if (f->log && dpti_log_write_device_event(f->log, &event, &error) != DPT_OK)
            return dpti_context_fail(f->context, NULL, &error);
    }
    return DPT_OK;
}
