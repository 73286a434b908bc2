/* Steps that are retried because no device has the current weights any more and training goes back
   to the weights of standby devices (train/standby/standby.h).  The limits of the training loop
   hold during these steps, and its counts include the committed steps only. */
#include "context/context.h"
#include "fit/fit.h"

#include "train/progress/in_flight.h"
#include "train/standby/standby.h"

void dpti_fit_note_standby(dpti_fit *f)
{
    const dpt_trainer *t = f->trainer;
    const size_t before = dpti_steps_next(t)->step - 1;
    if (dpt_trainer_in_flight(t) > 1 || dpti_standby_count(t) == 0 ||
        !dpti_standby_missed_first(t, before))
        return;
    f->rested_step = before;
    f->rested = f->course;
}

/* The log has each step once, as it was made first. */
static dpt_status tell_rewind(dpti_fit *f)
{
    const size_t step = dpt_trainer_steps(f->trainer) + 1,
                 until = dpti_standby_retries(f->trainer).until;
    dpt_error error = {0};
    char text[128];
    snprintf(text, sizeof text,
             "nobody has the weights of now any more: steps %zu to %zu are done again", step,
             until);
    dpti_fit_notify(f, DPT_NOTICE_INFO, text);
    if (!f->log || dpti_log_write_rewind(f->log, step, until, &error) == DPT_OK) return DPT_OK;
    return dpti_context_fail(f->context, NULL, &error);
}

/* Goes back, unless a failed attempt has already gone back. */
static dpt_status go_back(dpti_fit *f)
{
    if (f->trainer->callback == DPTI_CALLBACK_NONE) DPT_TRY(dpti_fit_tell_devices(f));
    if (f->again || dpt_trainer_steps(f->trainer) != f->rested_step) return DPT_OK;
    f->ahead = f->course;
    f->course = f->rested;
    f->course.result.stopped = f->ahead.result.stopped;
    f->course.result.stopped_for = f->ahead.result.stopped_for;
    f->again = true;
    return tell_rewind(f);
}

/* Returns whether training has reached the step from which it went back.  What was reported about
   these steps still holds. */
static bool go_on(dpti_fit *f, const dpt_step_metrics *step)
{
    dpti_fit_count(f, step);
    if (step->last_of_epoch) dpti_fit_close_epoch(f);
    if (step->step < dpti_standby_retries(f->trainer).until) return false;
    f->course = f->ahead;
    f->again = false;
    return true;
}

/* A callback is not called from within a callback. */
static bool is_to_end(dpti_fit *f)
{
    return f->trainer->callback == DPTI_CALLBACK_NONE ? dpti_fit_is_to_end(f)
                                                      : !dpti_fit_wants_more(f);
}

static dpt_status cut(dpti_fit *f)
{
    char text[128];
    snprintf(text, sizeof text, "training ends behind step %zu: steps up to %zu are not done again",
             dpt_trainer_steps(f->trainer), dpti_standby_retries(f->trainer).until);
    f->cut = true;
    dpti_fit_notify(f, DPT_NOTICE_WARNING, text);
    return dpt_fail(f->context, DPT_E_STATE, "%s", text);
}

dpt_status dpti_fit_again(void *fit, const dpt_step_metrics *step)
{
    dpti_fit *f = fit;
    if (!step) DPT_TRY(go_back(f));
    if (!f->again || (step && go_on(f, step))) return DPT_OK;
    return is_to_end(f) ? cut(f) : DPT_OK;
}
