/* Tests what is drawn for mixup and CutMix: Beta's distribution where its integral is known, and
   the rectangles and lambdas of torchvision's definition. */
#include "harness.h"
#include "train/components/mix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { H = 6, W = 10, SAMPLES = 20000 };

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double uniform_cdf(double x)
{
    return x;
}

static double arcsine_cdf(double x)
{
    return 2.0 / acos(-1.0) * asin(sqrt(x));
}

static double parabola_cdf(double x)
{
    return x * x * (3.0 - 2.0 * x);
}

/* The largest distance from the integral of the distribution (Kolmogorov and Smirnov): for n
   numbers it is above 2.2 / sqrt(n) once in 8000 times. */
static void check_distribution(test *t, float alpha, double (*cdf)(double))
{
    static double lambda[SAMPLES];
    const dpti_mix_options options = {.mixup = alpha, .height = H, .width = W, .seed = 5};
    double most = 0;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        float drawn[2 + H + W];
        dpti_mix_draw(&options, 1, i, drawn);
        lambda[i] = (double)drawn[0];
        CHECK(drawn[0] >= 0.0f && drawn[0] <= 1.0f);
        CHECK(drawn[0] * 0x1p24f == floorf(drawn[0] * 0x1p24f));
        CHECK(drawn[1] == (drawn[0] >= 0.5f ? 1.0f : 0.0f));
        for (size_t y = 0; y < H; y++)
            CHECK(drawn[2 + y] == 1.0f - drawn[0]);
        for (size_t x = 0; x < W; x++)
            CHECK(drawn[2 + H + x] == 1.0f);
    }
    qsort(lambda, SAMPLES, sizeof *lambda, compare);
    for (size_t i = 0; i < SAMPLES; i++) {
        const double expected = cdf(lambda[i]);
        most = fmax(most, fabs(expected - (double)i / SAMPLES));
        most = fmax(most, fabs(expected - (double)(i + 1) / SAMPLES));
    }
    if (!CHECK(most < 2.2 / sqrt(SAMPLES))) FAIL("alpha %g: distance %g", (double)alpha, most);
}

static void distributions(test *t)
{
    check_distribution(t, 1.0f, uniform_cdf);
    check_distribution(t, 0.5f, arcsine_cdf);
    check_distribution(t, 2.0f, parabola_cdf);
}

/* The numbers that are 1: a run.  Returns its length, or `n` + 1 if they are none. */
static size_t run_of(const float *numbers, size_t n, size_t *from)
{
    size_t length = 0;
    for (size_t i = 0; i < n; i++) {
        if (numbers[i] != 0.0f && numbers[i] != 1.0f) return n + 1;
        if (numbers[i] == 1.0f && length == 0) *from = i;
        if (numbers[i] == 1.0f && i != *from + length) return n + 1;
        length += numbers[i] == 1.0f;
    }
    return length;
}

static void rectangles(test *t)
{
    const dpti_mix_options options = {.cutmix = 1, .height = H, .width = W, .seed = 9};
    size_t cut = 0, empty = 0, tops[H] = {0};
    double mean = 0;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        float drawn[2 + H + W];
        size_t top = 0, left = 0;
        dpti_mix_draw(&options, 2, i, drawn);
        const size_t height = run_of(drawn + 2, H, &top), width = run_of(drawn + 2 + H, W, &left);
        if (!CHECK(height <= H && width <= W)) return;
        CHECK_NEAR((double)drawn[0], 1.0 - (double)(height * width) / (H * W), 1e-7);
        /* r is below 1/2, so that at most 2 of 6 rows and 4 of 10 columns are on each side. */
        CHECK(height <= 4 && width <= 8);
        cut += height < 4 && height % 2 == 1; /* an edge of the image */
        empty += height * width == 0;
        tops[top] += height > 0;
        mean += (double)drawn[0] / SAMPLES;
    }
    CHECK(cut > SAMPLES / 50 && empty > SAMPLES / 50);
    for (size_t y = 0; y + 1 < H; y++)
        CHECK(tops[y] > SAMPLES / 100);
    CHECK(mean > 0.7 && mean < 0.9);
}

/* A line of the file: the weights of the partner's pixels, and lambda. */
static void compare_line(test *t, const char *line, size_t *compared)
{
    char name[8], pixels[32 * 32 + 1];
    double number, lambda;
    dpti_mix_options o = {0};
    dpti_mix_cut cut;
    float made[2 + 32 + 32];
    if (!CHECK(sscanf(line, "%7s %zu %zu %lf %zu %zu %lf %1024s", name, &o.height, &o.width,
                      &number, &cut.x, &cut.y, &lambda, pixels) == 8) ||
        !CHECK(o.height <= 32 && o.width <= 32))
        return;
    const bool cuts = strcmp(name, "cutmix") == 0;
    number = (double)(float)number; /* of which torchvision makes a float32, too */
    cut.number = number;
    if (cuts)
        dpti_mix_by_cut(&o, &cut, made);
    else
        dpti_mix_by_blend(&o, number, made);
    CHECK_NEAR((double)made[0], lambda, 1e-7);
    if (!CHECK(!cuts || strlen(pixels) == o.height * o.width)) return;
    for (size_t i = 0; i < o.height * o.width; i++) {
        const double weight =
            (double)made[2 + i / o.width] * (double)made[2 + o.height + i % o.width];
        if (!CHECK_NEAR(weight, cuts ? pixels[i] - '0' : atof(pixels), 1e-7)) FAIL("%s", line);
    }
    ++*compared;
}

static void as_torchvision(test *t)
{
    static char line[2000];
    size_t compared = 0;
    FILE *file = test_open("golden/mix.txt");
    if (!CHECK(file)) return;
    while (fgets(line, sizeof line, file))
        if (line[0] != '#') compare_line(t, line, &compared);
    fclose(file);
    CHECK_SIZE(compared, 4 * 7 * 4);
}

static void keys(test *t)
{
    const dpti_mix_options both = {.mixup = 0.4f, .cutmix = 1, .height = H, .width = W, .seed = 1};
    dpti_mix_options other = both;
    float a[2 + H + W], b[2 + H + W];
    size_t same_epoch = 0, same_sample = 0, same_seed = 0, mixups = 0;
    other.seed = 2;
    for (uint32_t i = 0; i < 1000; i++) {
        dpti_mix_draw(&both, 1, i, a);
        dpti_mix_draw(&both, 1, i, b);
        CHECK(memcmp(a, b, sizeof a) == 0);
        mixups += a[2 + H] == 1.0f && a[2 + H + W - 1] == 1.0f;
        dpti_mix_draw(&both, 2, i, b);
        same_epoch += memcmp(a, b, sizeof a) == 0;
        dpti_mix_draw(&both, 1, i + 1, b);
        same_sample += memcmp(a, b, sizeof a) == 0;
        dpti_mix_draw(&other, 1, i, b);
        same_seed += memcmp(a, b, sizeof a) == 0;
    }
    CHECK(same_epoch < 100 && same_sample < 100 && same_seed < 100);
    CHECK(mixups > 400 && mixups < 600);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {{"distributions", distributions},
                                      {"rectangles", rectangles},
                                      {"as_torchvision", as_torchvision},
                                      {"keys", keys}};
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
