/* The time model t(n) = a + b n, estimated from noisy observations one at a time.  It is a Kalman
   filter whose state (a, b) varies in one direction only: that of (a, b) itself.  The speed of a
   device changes while a program runs, and a change of speed scales a and b alike.  So a shard
   that stays the same for a long time teaches the speed, and does not degrade what other shards
   have taught about the slope. */
#include "balance/balance.h"

#include <math.h>

/* Standard deviation of the change of a device's speed in a step, relative to the standard
   deviation of the noise.  In steady state an observation has about this weight.  The value rises
   when errors lean to one side, and falls afterwards.  The reason: the shards of a device that
   becomes slower shrink, so that its time stays the same, which looks like a device whose time
   does not depend on its shard. */
static const double wandering = 0.04, wandering_in_drift = 0.5, wandering_falls = 0.9;
/* The same, once, after a step change. */
static const double unsure_after_step = 2.0;
/* Errors lean if their mean, over about 1 / lean_gain observations, is this many standard
   deviations of the mean of random errors. */
static const double lean_gain = 0.2, lean_sigmas = 3.0;
/* An observation is an outlier if it is this many standard deviations off, and off by at least
   this ratio. */
static const double suspect_sigmas = 4.0, suspect_least = 0.25;
static const double first_noise = 0.05, least_noise = 0.005, most_noise = 0.25;
/* Limits of a valid step time, in seconds. */
static const double least_seconds = 1e-9, most_seconds = 1e9;
/* Weight of a new error in the estimate of the noise. */
static const double noise_gain = 0.05;
/* Before two shard sizes were seen: the assumed fixed part of the time, and its standard
   deviation. */
static const double fixed_part = 0.1, fixed_unsure = 0.25;
/* Largest fixed part.  A model in which more samples cost nothing would never try fewer
   samples. */
static const double most_fixed = 0.9;

bool dpti_is_step_time(double seconds)
{
    return seconds >= least_seconds && seconds <= most_seconds;
}

dpti_time_model dpti_time_model_new(void)
{
    return (dpti_time_model){.noise = first_noise, .wandering = wandering};
}

double dpti_time_model_seconds(const dpti_time_model *model, size_t n)
{
    const double busy = n > 0 ? model->a + model->b * (double)n : 0.0;
    return fmax(busy, model->idle);
}

/* Returns the variance of a + b n. */
static double variance(const dpti_time_model *m, double n)
{
    return fmax(m->p[0] + 2.0 * m->p[1] * n + m->p[2] * n * n, 0.0);
}

double dpti_time_model_error(const dpti_time_model *model, size_t n)
{
    const double seconds = dpti_time_model_seconds(model, n);
    if (n == 0 || model->n_seen == 0 || !(seconds > 0.0)) return 0.0;
    return sqrt(variance(model, (double)n)) / seconds;
}

/* Adds a relative variance in the direction of (a, b), which is the variance of the speed. */
static void doubt_speed(dpti_time_model *m, double relative)
{
    const double v = relative * relative;
    m->p[0] += v * m->a * m->a;
    m->p[1] += v * m->a * m->b;
    m->p[2] += v * m->b * m->b;
}

/* Takes the first observation: the variance at n is that of the noise, and the variance along
   lines through (n, t) is large. */
static void begin(dpti_time_model *m, double n, double t)
{
    m->a = fixed_part * t;
    m->b = (1.0 - fixed_part) * t / n;
    const double known = m->noise * t, wide = fixed_unsure * t;
    m->p[0] = wide * wide;
    m->p[1] = -wide * wide / n;
    m->p[2] = (wide * wide + known * known) / (n * n);
}

/* A fixed part that is negative, or almost all of the time, is the noise of observations that lie
   close together.  The line then keeps its value at n and gets the nearest allowed fixed part. */
static void keep_sensible(dpti_time_model *m, double n)
{
    const double t = m->a + m->b * n;
    const double a = fmin(fmax(m->a, 0.0), most_fixed * t);
    if (a == m->a) return;
    m->a = a;
    m->b = (t - a) / n;
}

/* The update of the filter, with noise proportional to the time. */
static void learn(dpti_time_model *m, double n, double t)
{
    const double modelled = m->a + m->b * n, noise = m->noise * modelled;
    doubt_speed(m, m->wandering * m->noise);
    m->wandering = fmax(wandering, wandering_falls * m->wandering);
    const double total = variance(m, n) + noise * noise;
    const double g0 = m->p[0] + m->p[1] * n, g1 = m->p[1] + m->p[2] * n;
    m->a += g0 / total * (t - modelled);
    m->b += g1 / total * (t - modelled);
    m->p[0] -= g0 * g0 / total;
    m->p[1] -= g0 * g1 / total;
    m->p[2] -= g1 * g1 / total;
    keep_sensible(m, n);
}

static void scale(dpti_time_model *m, double ratio)
{
    m->a *= ratio;
    m->b *= ratio;
    m->idle *= ratio;
    for (int i = 0; i < 3; i++)
        m->p[i] *= ratio * ratio;
    doubt_speed(m, unsure_after_step * m->noise);
}

/* Adds an error to the estimate of the noise. */
static void note_noise(dpti_time_model *m, double error)
{
    /* The mean absolute deviation of a normal distribution is 0.8 standard deviations. */
    const double size = fmin(fabs(error), suspect_least) / 0.8;
    m->noise += fmax(noise_gain, 1.0 / (double)m->n_seen) * (size - m->noise);
    m->noise = fmin(fmax(m->noise, least_noise), most_noise);
}

/* Returns whether an observation is an outlier.  The second of two outliers on one side is a step
   change.  The first one counts as noise: where such outliers are frequent, the estimate of the
   noise grows, and they are no outliers any more. */
static bool rejected(dpti_time_model *m, double ratio)
{
    const double limit = fmax(suspect_sigmas * m->noise, suspect_least), off = log(ratio);
    if (fabs(off) <= limit || m->n_seen < 2) {
        m->n_suspects = 0;
        return false;
    }
    const int side = off > 0.0 ? 1 : -1;
    if (m->n_suspects != side) {
        note_noise(m, off);
        m->n_suspects = side;
        return true;
    }
    /* The later of two observations is used, because the change may have come in the middle of the
       first one. */
    scale(m, ratio);
    m->n_suspects = 0;
    m->stepped = true;
    return true;
}

/* Learns the noise from an error, and notices whether errors lean to one side, as those of a
   device that drifts do. */
static void judge(dpti_time_model *m, double error)
{
    note_noise(m, error - m->lean);
    m->lean += lean_gain * (error - m->lean);
    if (fabs(m->lean) <= lean_sigmas * m->noise * sqrt(lean_gain / (2.0 - lean_gain))) return;
    m->wandering = wandering_in_drift;
    m->lean = 0.0;
}

void dpti_time_model_observe(dpti_time_model *model, size_t n, double seconds)
{
    dpti_time_model *m = model;
    m->stepped = false;
    if (!dpti_is_step_time(seconds)) return;
    if (n == 0) {
        m->idle = m->idle > 0.0 ? m->idle + 0.2 * (seconds - m->idle) : seconds;
        return;
    }
    const double samples = (double)n;
    if (m->n_seen == 0) {
        begin(m, samples, seconds);
        m->n_seen = 1;
        return;
    }
    const double ratio = seconds / (m->a + m->b * samples);
    if (rejected(m, ratio)) return;
    if (m->n_seen >= 3) judge(m, ratio - 1.0);
    learn(m, samples, seconds);
    m->n_seen++;
}
