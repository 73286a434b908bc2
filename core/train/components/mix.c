/* Draws for mixup and CutMix (mix.h). */
#include "train/components/mix.h"

#include "base/elementary.h"
#include "base/random.h"

#include <math.h>

/* In (0, 1). */
static double uniform(dpti_random *random)
{
    return ((double)(dpti_random_u32(random) >> 8) + 0.5) * 0x1p-24;
}

/* The logarithm of a number of Gamma(shape, 1), shape at least 1 (Marsaglia and Tsang 2000). */
static double log_gamma_of(dpti_random *random, double shape)
{
    const double d = shape - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
    for (;;) {
        const double x = (double)dpti_random_normal(random), u = uniform(random);
        const double root = 1.0 + c * x, v = root * root * root;
        if (root > 0.0 && dpti_log(u) < 0.5 * x * x + d - d * v + d * dpti_log(v))
            return dpti_log(d * v);
    }
}

/* A number of Beta(alpha, alpha).  A number of Gamma(alpha, 1) is one of Gamma(alpha + 1, 1) times
   u^(1 / alpha). */
static double beta_of(dpti_random *random, double alpha)
{
    double log_gamma[2];
    for (int i = 0; i < 2; i++) {
        log_gamma[i] = log_gamma_of(random, alpha + 1.0);
        log_gamma[i] += dpti_log(uniform(random)) / alpha;
    }
    return 1.0 / (1.0 + dpti_exp(log_gamma[1] - log_gamma[0]));
}

/* A run of ones, which begins at `from` and ends before `to`, within n numbers. */
static size_t write_run(ptrdiff_t from, ptrdiff_t to, size_t n, float *out)
{
    size_t ones = 0;
    for (size_t i = 0; i < n; i++) {
        const bool inside = (ptrdiff_t)i >= from && (ptrdiff_t)i < to;
        out[i] = inside ? 1.0f : 0.0f;
        ones += inside;
    }
    return ones;
}

/* Returns the part of the pixels that are not in the rectangle. */
static double draw_rectangle(dpti_random *random, const dpti_mix_options *o, float *rows)
{
    const double r = 0.5 * sqrt(1.0 - beta_of(random, (double)o->cutmix));
    const ptrdiff_t x = (ptrdiff_t)dpti_random_below(random, (uint32_t)o->width);
    const ptrdiff_t y = (ptrdiff_t)dpti_random_below(random, (uint32_t)o->height);
    const ptrdiff_t down = (ptrdiff_t)(r * (double)o->height);
    const ptrdiff_t right = (ptrdiff_t)(r * (double)o->width);
    const size_t height = write_run(y - down, y + down, o->height, rows);
    const size_t width = write_run(x - right, x + right, o->width, rows + o->height);
    return 1.0 - (double)(height * width) / (double)(o->height * o->width);
}

/* To the nearest multiple of 2^-24, so that 1 - lambda is exact, too. */
static float rounded(double lambda)
{
    return (float)(floor(lambda * 0x1p24 + 0.5) * 0x1p-24);
}

void dpti_mix_draw(const dpti_mix_options *options, size_t epoch, uint32_t sample, float *out)
{
    const dpti_mix_options *o = options;
    float *rows = out + 2;
    dpti_random random;
    dpti_random_init(&random, o->seed, DPTI_RANDOM_MIX, (uint64_t)epoch << 32 | sample);
    const bool first = (dpti_random_u32(&random) & 1u) == 0;
    if (o->cutmix > 0 && (o->mixup == 0 || first)) {
        out[0] = rounded(draw_rectangle(&random, o, rows));
    } else {
        out[0] = rounded(beta_of(&random, (double)o->mixup));
        for (size_t i = 0; i < o->height; i++)
            rows[i] = 1.0f - out[0];
        for (size_t i = 0; i < o->width; i++)
            rows[o->height + i] = 1.0f;
    }
    out[1] = out[0] >= 0.5f ? 1.0f : 0.0f;
}
