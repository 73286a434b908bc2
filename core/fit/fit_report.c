/* The report of the training loop: what the model takes samples for, and how training has ended. */
#include "context/context.h"
#include "fit/fit.h"

#include "base/print.h"
#include "train/evaluation/classify.h"

#include <stdlib.h>

enum { ENDING_BYTES = DPT_MESSAGE_BYTES + 64 };

/* ---- Samples --------------------------------------------------------------------------------- */

static void tell_failure(dpti_fit *f)
{
    char text[ENDING_BYTES];
    snprintf(text, sizeof text, "the report shows no classes and no samples: %s",
             f->context->error.message);
    dpti_fit_notify(f, DPT_NOTICE_WARNING, text);
    dpti_reporting_no_samples(&f->reporting, text);
}

/* The data whose samples are looked at; NULL: none. */
static const dpt_dataset *samples_of(const dpti_fit *f)
{
    const dpt_fit_options *o = f->options;
    const dpt_dataset *data = o->test ? o->test : o->validation;
    return data && dpti_classifies_samples(f->trainer, data) ? data : NULL;
}

dpt_status dpti_fit_look_at_samples(dpti_fit *f, size_t epoch)
{
    dpti_reporting *r = &f->reporting;
    const bool was_cut = f->cut;
    const dpt_error before = f->context->error;
    const dpt_dataset *data = f->reports && !r->no_samples ? samples_of(f) : NULL;
    if (!data) return DPT_OK;
    dpti_samples samples;
    dpti_fit_listen(f, true);
    const dpt_status status =
        dpti_samples_look(f->trainer, data, f->options->test ? "test" : "validation", &samples);
    dpti_fit_listen(f, false);
    if (status != DPT_E_CANCELLED) { /* else those of an earlier epoch stay */
        dpti_samples_free(&r->samples);
        samples.classes.epoch = epoch;
        r->samples = samples;
        r->looked_step = dpt_trainer_steps(f->trainer);
    }
    if (status == DPT_OK) return DPT_OK;
    if (f->cut != was_cut) return status;
    if (status != DPT_E_CANCELLED) tell_failure(f);
    f->context->error = before;
    return DPT_OK;
}

dpt_status dpti_fit_look_at_last(dpti_fit *f)
{
    const dpti_reporting *r = &f->reporting;
    const bool looked = r->samples.worst && r->looked_step == dpt_trainer_steps(f->trainer);
    if (f->course.result.steps == 0 || f->course.result.stopped || looked) return DPT_OK;
    return dpti_fit_look_at_samples(f, 0);
}

/* What is known of samples when the report is written: those of the last epoch are not those of the
   last step, if training was ended within an epoch. */
static void settle_samples(dpti_fit *f)
{
    dpti_reporting *r = &f->reporting;
    const size_t step = dpt_trainer_steps(f->trainer);
    if (r->samples.worst && r->looked_step > step) dpti_samples_free(&r->samples); /* gone back */
    if (r->samples.worst && r->looked_step == step) r->samples.classes.epoch = 0;
    if (r->samples.worst || r->no_samples || !samples_of(f)) return;
    dpti_reporting_no_samples(r,
                              "Training was ended before the samples of an epoch were looked at.");
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Says how training has ended.  Returns whether it has come to its end. */
static bool tell_ending(const dpti_fit *f, const dpt_error *failure, char text[ENDING_BYTES])
{
    const dpt_fit_result *r = &f->course.result;
    const size_t step = dpt_trainer_steps(f->trainer);
    if (failure)
        snprintf(text, ENDING_BYTES, "Training failed after step %zu: %s", step, failure->message);
    else if (f->cut)
        snprintf(text, ENDING_BYTES, "Training went back to step %zu and ended there.", step);
    else if (r->stopped)
        snprintf(text, ENDING_BYTES, "Training was ended early, after step %zu.", step);
    else if (r->no_patience)
        snprintf(text, ENDING_BYTES,
                 "Training ended after step %zu: no lower validation loss in %zu epochs.", step,
                 f->options->patience);
    else if (f->steps_total == 0 || r->steps < f->steps_total)
        snprintf(text, ENDING_BYTES, "Training ended after step %zu, at its time limit.", step);
    else
        snprintf(text, ENDING_BYTES, "Training came to its end after step %zu.", step);
    return !failure && !r->stopped && !f->cut;
}

dpt_status dpti_fit_write_report(dpti_fit *f, const dpt_error *failure)
{
    char ending[ENDING_BYTES];
    settle_samples(f);
    const bool well = tell_ending(f, failure, ending);
    const dpti_reported reported = {.trainer = f->trainer,
                                    .options = f->options,
                                    .result = &f->course.result,
                                    .history = &f->history,
                                    .schedule = &f->schedule,
                                    .ending = ending,
                                    .well = well};
    return dpti_reporting_write(&f->reporting, &reported);
}
