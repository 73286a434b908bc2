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

/* To the nearest multiple of 2^-24, so that 1 - lambda is exact, too. */
static float rounded(double lambda)
{
    return (float)(floor(lambda * 0x1p24 + 0.5) * 0x1p-24);
}

static void write_lambda(double lambda, float *out)
{
    out[0] = rounded(lambda);
    out[1] = out[0] >= 0.5f ? 1.0f : 0.0f;
}

void dpti_mix_by_cut(const dpti_mix_options *options, const dpti_mix_cut *cut, float *out)
{
    const size_t h = options->height, w = options->width;
    const double r = 0.5 * sqrt(1.0 - cut->number);
    const ptrdiff_t x = (ptrdiff_t)cut->x, y = (ptrdiff_t)cut->y;
    const ptrdiff_t down = (ptrdiff_t)(r * (double)h), right = (ptrdiff_t)(r * (double)w);
    const size_t height = write_run(y - down, y + down, h, out + 2);
    const size_t width = write_run(x - right, x + right, w, out + 2 + h);
    write_lambda(1.0 - (double)(height * width) / (double)(h * w), out);
}

void dpti_mix_by_blend(const dpti_mix_options *options, double number, float *out)
{
    float *rows = out + 2, *columns = rows + options->height;
    write_lambda(number, out);
    for (size_t i = 0; i < options->height; i++)
        rows[i] = 1.0f - out[0];
    for (size_t i = 0; i < options->width; i++)
        columns[i] = 1.0f;
}

void dpti_mix_draw(const dpti_mix_options *options, size_t epoch, uint32_t sample, float *out)
{
    const dpti_mix_options *o = options;
    dpti_random random;
    dpti_random_init(&random, o->seed, DPTI_RANDOM_MIX, (uint64_t)epoch << 32 | sample);
    const bool first = (dpti_random_u32(&random) & 1u) == 0;
    if (o->cutmix > 0 && (o->mixup == 0 || first)) {
        dpti_mix_cut cut = {.number = beta_of(&random, (double)o->cutmix)};
        cut.x = dpti_random_below(&random, (uint32_t)o->width);
        cut.y = dpti_random_below(&random, (uint32_t)o->height);
        dpti_mix_by_cut(o, &cut, out);
    } else {
        dpti_mix_by_blend(o, beta_of(&random, (double)o->mixup), out);
    }
}
