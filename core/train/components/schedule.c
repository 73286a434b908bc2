/* The learning rate of each step (schedule.h). */
#include "train/components/schedule.h"

#include "base/elementary.h"
#include "base/floats.h"
#include "dpt_error.h"

#include <math.h>

/* OneCycleLR's defaults: the part of the steps that rises, peak / first, first / last. */
static const double rising = 0.3, first_divisor = 25, last_divisor = 1e4;

void dpti_schedule_resolve(dpt_schedule *options)
{
    if (options->every == 0) options->every = 30;
    if (options->factor == 0) options->factor = 0.1f;
}

dpt_status dpti_schedule_check(dpti_schedule *schedule, dpt_error *error)
{
    dpt_schedule *o = &schedule->options;
    dpti_schedule_resolve(o);
    if (!(o->factor > 0 && o->factor <= 1))
        return DPT_FAIL(error, DPT_E_INVALID, "a schedule's factor of %g is not in (0, 1]",
                        (double)o->factor);
    switch (o->kind) {
    case DPT_SCHEDULE_CONSTANT:
    case DPT_SCHEDULE_STEP: return DPT_OK;
    case DPT_SCHEDULE_COSINE:
    case DPT_SCHEDULE_ONECYCLE:
        if (schedule->total_steps > 0) return DPT_OK;
        return DPT_FAIL(error, DPT_E_INVALID,
                        "the %s schedule must know how many steps there are: set a number of "
                        "epochs or of steps, not only a time",
                        o->kind == DPT_SCHEDULE_COSINE ? "cosine" : "onecycle");
    }
    return DPT_FAIL(error, DPT_E_INVALID, "unknown schedule %d", (int)o->kind);
}

/* Half a cosine from `from` to `to`, `done` going from 0 to 1. */
static double anneal(double from, double to, double done)
{
    return to + (from - to) / 2 * (1 + dpti_cos_turns(done / 2));
}

static double onecycle(double lr, double step, double total)
{
    const double peak = rising * total - 1, last = total - 1;
    const double first_lr = lr / first_divisor;
    /* Of up to 3 steps none rises: the peak lies before the first. */
    if (step <= peak) return anneal(first_lr, lr, step / peak);
    return anneal(lr, first_lr / last_divisor, (step - peak) / (last - peak));
}

static double unwarmed(const dpti_schedule *s, double step)
{
    const double total = (double)s->total_steps;
    switch (s->options.kind) {
    case DPT_SCHEDULE_CONSTANT: break;
    case DPT_SCHEDULE_STEP: {
        const double every = (double)s->options.every * (double)s->steps_per_epoch;
        return s->lr * dpti_power((double)s->options.factor, (size_t)floor(step / every));
    }
    case DPT_SCHEDULE_COSINE: return anneal(s->lr, 0, step / total);
    case DPT_SCHEDULE_ONECYCLE: return onecycle(s->lr, step, total);
    }
    return s->lr;
}

double dpti_schedule_lr(const dpti_schedule *schedule, size_t step)
{
    const double t = (double)step, warmup = (double)schedule->options.warmup_steps;
    const double lr = unwarmed(schedule, t);
    return t + 1 < warmup ? lr * ((t + 1) / warmup) : lr;
}
