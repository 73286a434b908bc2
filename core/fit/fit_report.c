/* The report of the training loop: what the model takes samples for, and how training has ended. */
#include "context/context.h"
#include "fit/fit.h"

#include "base/print.h"

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

dpt_status dpti_fit_look_at_samples(dpti_fit *f)
{
    const dpt_fit_options *o = f->options;
    const dpt_dataset *data = o->test ? o->test : o->validation;
    const bool was_cut = f->cut;
    const dpt_error before = f->context->error;
    if (!f->reports || !data || f->course.result.steps == 0) return DPT_OK;
    if (!dpti_samples_fit(f->trainer, data)) return DPT_OK;
    if (f->course.result.stopped) {
        dpti_reporting_no_samples(&f->reporting,
                                  "Training was ended early, so no samples were looked "
                                  "at.");
        return DPT_OK;
    }
    dpti_samples_free(&f->reporting.samples);
    const dpt_status status =
        dpti_samples_look(f->trainer, data, o->test ? "test" : "validation", &f->reporting.samples);
    if (status == DPT_OK) return DPT_OK;
    if (f->cut != was_cut) return status;
    tell_failure(f);
    f->context->error = before;
    return DPT_OK;
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

dpt_status dpti_fit_write_report(const dpti_fit *f, const dpt_error *failure)
{
    char ending[ENDING_BYTES];
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
