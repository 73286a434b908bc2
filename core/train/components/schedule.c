/* The learning rate of each step (schedule.h). */
#include "train/components/schedule.h"

#include "base/elementary.h"
#include "base/floats.h"
#include "dpt_error.h"

#include <math.h>

const char *const dpti_schedule_names[DPTI_SCHEDULES] = {
    [DPT_SCHEDULE_CONSTANT] = "constant",
    [DPT_SCHEDULE_STEP] = "step",
    [DPT_SCHEDULE_COSINE] = "cosine",
    [DPT_SCHEDULE_ONECYCLE] = "onecycle",
    [DPT_SCHEDULE_COSINE_NANOGPT] = "cosine-nanogpt",
    [DPT_SCHEDULE_COSINE_TRANSFORMERS] = "cosine-transformers",
    [DPT_SCHEDULE_LINEAR_TRANSFORMERS] = "linear-transformers",
};

/* OneCycleLR's defaults: the part of the steps that rises, peak / first, first / last. */
static const double rising = 0.3, first_divisor = 25, last_divisor = 1e4;

void dpti_schedule_resolve(dpt_schedule *options)
{
    if (options->every == 0) options->every = 30;
    if (options->factor == 0) options->factor = 0.1f;
}

static dpt_status check_min_lr(const dpti_schedule *s, dpt_error *error)
{
    const dpt_schedule *o = &s->options;
    if (!dpti_schedule_counts_behind_warmup(o->kind))
        return o->min_lr == 0
                   ? DPT_OK
                   : DPT_FAIL(error, DPT_E_INVALID,
                              "a lowest learning rate goes with a schedule that counts from the "
                              "end of the warm-up, and not with %s",
                              dpti_schedule_names[o->kind]);
    if (o->min_lr >= 0 && (double)o->min_lr <= s->lr * (1 + 1e-6)) return DPT_OK;
    return DPT_FAIL(error, DPT_E_INVALID,
                    "a lowest learning rate of %g is not between 0 and the learning rate %g",
                    (double)o->min_lr, s->lr);
}

dpt_status dpti_schedule_check(dpti_schedule *schedule, dpt_error *error)
{
    dpt_schedule *o = &schedule->options;
    dpti_schedule_resolve(o);
    if (!(o->factor > 0 && o->factor <= 1))
        return DPT_FAIL(error, DPT_E_INVALID, "a schedule's factor of %g is not in (0, 1]",
                        (double)o->factor);
    if ((int)o->kind < 0 || (int)o->kind >= DPTI_SCHEDULES)
        return DPT_FAIL(error, DPT_E_INVALID, "unknown schedule %d", (int)o->kind);
    DPT_TRY(check_min_lr(schedule, error));
    if (o->kind == DPT_SCHEDULE_CONSTANT || o->kind == DPT_SCHEDULE_STEP) return DPT_OK;
    if (schedule->total_steps > 0) return DPT_OK;
    return DPT_FAIL(error, DPT_E_INVALID,
                    "the %s schedule must know how many steps there are: set a number of epochs or "
                    "of steps, not only a time",
                    dpti_schedule_names[o->kind]);
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
    default: break;
    }
    return s->lr;
}

/* Of a schedule that counts from the end of its warm-up. */
static double behind_warmup(const dpti_schedule *s, double step)
{
    const double warmup = (double)s->options.warmup_steps, total = (double)s->total_steps;
    const double lowest = (double)s->options.min_lr;
    const bool begins_above_0 = s->options.kind == DPT_SCHEDULE_COSINE_NANOGPT;
    if (step < warmup) return s->lr * (begins_above_0 ? (step + 1) / (warmup + 1) : step / warmup);
    if (step >= total) return lowest;
    const double done = (step - warmup) / (total - warmup);
    if (s->options.kind == DPT_SCHEDULE_LINEAR_TRANSFORMERS)
        return lowest + (s->lr - lowest) * (1 - done);
    return anneal(s->lr, lowest, done);
}

double dpti_schedule_lr(const dpti_schedule *schedule, size_t step)
{
    if (dpti_schedule_counts_behind_warmup(schedule->options.kind))
        return behind_warmup(schedule, (double)step);
    const double t = (double)step, warmup = (double)schedule->options.warmup_steps;
    const double lr = unwarmed(schedule, t);
    return t + 1 < warmup ? lr * ((t + 1) / warmup) : lr;
}
