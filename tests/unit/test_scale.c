/* Tests cutting and scaling: against fractions computed by hand, against a slow reference, and by
   properties of any picture. */
#include "data/scale.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 1 << 14, N_RANDOM = 300 };

typedef struct size {
    size_t height, width;
} size;

static dpti_image_shape shape_of(size s, size_t channels)
{
    return (dpti_image_shape){s.height, s.width, channels};
}

static void fill(test_random *random, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)test_random_below(random, 256);
}

static bool scale_middle(const uint8_t *from, const dpti_image_shape *of, uint8_t *to,
                         const dpti_image_shape *wanted)
{
    const dpti_image_window window = dpti_scale_middle(of, wanted);
    return dpti_scale(&(dpti_scale_source){from, *of, window}, to, wanted);
}

/* ---- By hand --------------------------------------------------------------------------------- */

static void by_hand(test *t)
{
    static const struct {
        size of, wanted;
        uint8_t from[16], to[16];
    } cases[] = {
        /* Means of whole boxes: 10/4 and 2.5 round up. */
        {{2, 4}, {1, 2}, {1, 2, 9, 8, 3, 4, 7, 6}, {3, 8}},
        {{4, 4}, {1, 1}, {0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255}, {128}},
        /* 3 x 3 to 2 x 2: a pixel and a half, (4a + 2b + 2d + e) / 9. */
        {{3, 3}, {2, 2}, {0, 9, 18, 27, 36, 45, 54, 63, 72}, {12, 24, 48, 60}},
        /* Middles at 0.25 and 0.75 of the way from one pixel's to the other's. */
        {{1, 2}, {2, 4}, {0, 100}, {0, 25, 75, 100, 0, 25, 75, 100}},
        {{2, 1}, {4, 2}, {0, 100}, {0, 0, 25, 25, 75, 75, 100, 100}},
        /* 2 to 3 pixels: 1/6 before the first, half way, 1/6 behind the last. */
        {{2, 2}, {3, 3}, {0, 60, 120, 180}, {0, 30, 60, 60, 90, 120, 120, 150, 180}},
        /* Of 1 x 4 the middle is left; of an odd rest the larger half is cut at the end. */
        {{1, 4}, {1, 2}, {1, 2, 3, 4}, {2, 3}},
        {{5, 1}, {2, 1}, {1, 2, 3, 4, 5}, {2, 3}},
        {{2, 3}, {1, 1}, {10, 20, 30, 40, 50, 60}, {30}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const dpti_image_shape of = shape_of(cases[i].of, 1), to = shape_of(cases[i].wanted, 1);
        uint8_t pixels[16] = {0};
        REQUIRE(scale_middle(cases[i].from, &of, pixels, &to));
        if (!CHECK(memcmp(pixels, cases[i].to, sizeof pixels) == 0))
            FAIL("case %zu: %d %d %d %d ...", i, pixels[0], pixels[1], pixels[2], pixels[3]);
    }
}

static void cuts(test *t)
{
    static const struct {
        size_t n, m, wanted_n, wanted_m, left;
    } cases[] = {
        {100, 100, 64, 64, 100},     {100, 50, 64, 64, 50}, {50, 100, 64, 64, 50},
        {99, 100, 2, 1, 99},         {1000, 3, 2, 1, 6},    {7, 5, 1, 2, 3}, /* 2.5 */
        {1000, 1, 1, 4096, 1}, /* 0.0002: at least 1 */
        {1 << 28, 1, 4096, 1, 4096},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_SIZE(dpti_scale_cut(cases[i].n, cases[i].m, cases[i].wanted_n, cases[i].wanted_m),
                   cases[i].left);
}

/* ---- What holds of all ----------------------------------------------------------------------- */

static const size any[] = {{1, 1}, {1, 2},   {2, 1},  {3, 5},   {7, 7},   {8, 8},
                           {9, 4}, {64, 64}, {1, 99}, {120, 1}, {31, 57}, {5, 100}};
enum { N_ANY = sizeof any / sizeof *any };

/* The image of every size from every other. */
static void for_all(test *t, void (*check)(test *t, size of, size wanted))
{
    for (size_t i = 0; i < N_ANY; i++)
        for (size_t j = 0; j < N_ANY; j++)
            check(t, any[i], any[j]);
}

static void check_constant(test *t, size of, size wanted)
{
    static const uint8_t values[] = {0, 1, 127, 254, 255};
    const dpti_image_shape from = shape_of(of, 1), to = shape_of(wanted, 1);
    for (size_t v = 0; v < sizeof values; v++) {
        uint8_t image[MAX_BYTES], pixels[MAX_BYTES] = {0}, expected[MAX_BYTES];
        memset(image, values[v], sizeof image);
        memset(expected, values[v], sizeof expected);
        REQUIRE(scale_middle(image, &from, pixels, &to));
        CHECK(memcmp(pixels, expected, wanted.height * wanted.width) == 0);
    }
}

static void constant_stays(test *t)
{
    for_all(t, check_constant);
}

static void same_size_stays(test *t)
{
    test_random random = {1};
    for (size_t i = 0; i < N_ANY; i++) {
        uint8_t image[MAX_BYTES], pixels[MAX_BYTES] = {0};
        const dpti_image_shape shape = shape_of(any[i], 3);
        fill(&random, image, sizeof image);
        REQUIRE(scale_middle(image, &shape, pixels, &shape));
        CHECK(memcmp(image, pixels, any[i].height * any[i].width * 3) == 0);
    }
}

/* The mean of each box, rounded half up. */
static void whole_factors(test *t)
{
    test_random random = {2};
    for (size_t factor = 1; factor <= 9; factor++) {
        const dpti_image_shape from = {4 * factor, 3 * factor, 1}, to = {4, 3, 1};
        uint8_t image[MAX_BYTES], pixels[12];
        fill(&random, image, sizeof image);
        REQUIRE(scale_middle(image, &from, pixels, &to));
        for (size_t i = 0; i < 12; i++) {
            size_t sum = 0;
            for (size_t y = 0; y < factor; y++)
                for (size_t x = 0; x < factor; x++)
                    sum += image[(i / 3 * factor + y) * from.width + i % 3 * factor + x];
            const size_t n = factor * factor;
            CHECK_SIZE(pixels[i], (2 * sum + n) / (2 * n));
        }
    }
}

/* ---- The same otherwise ---------------------------------------------------------------------- */

/* The part of pixel i in pixel j, of n that become m; 1 in all. */
static double part_of(size_t i, size_t j, size_t n, size_t m)
{
    const double ratio = (double)n / (double)m;
    if (n >= m) {
        const double begin = (double)j * ratio, end = begin + ratio;
        const double from = begin > (double)i ? begin : (double)i;
        const double to = end < (double)i + 1 ? end : (double)i + 1;
        return to > from ? (to - from) / ratio : 0;
    }
    double at = ((double)j + 0.5) * ratio - 0.5;
    if (at < 0) at = 0;
    if (at > (double)n - 1) at = (double)n - 1;
    const double distance = at > (double)i ? at - (double)i : (double)i - at;
    return distance < 1 ? 1 - distance : 0;
}

static double reference(const uint8_t *image, const dpti_image_shape *of, size_t y, size_t x,
                        size_t c, const dpti_image_shape *wanted)
{
    const size_t n_y = dpti_scale_cut(of->height, of->width, wanted->height, wanted->width);
    const size_t n_x = dpti_scale_cut(of->width, of->height, wanted->width, wanted->height);
    const size_t top = (of->height - n_y) / 2, left = (of->width - n_x) / 2;
    double sum = 0;
    for (size_t i = 0; i < n_y; i++)
        for (size_t j = 0; j < n_x; j++)
            sum += part_of(i, y, n_y, wanted->height) * part_of(j, x, n_x, wanted->width) *
                   image[((top + i) * of->width + left + j) * of->channels + c];
    return sum;
}

static void compare_with_reference(test *t)
{
    test_random random = {3};
    for (size_t n = 0; n < N_RANDOM; n++) {
        const size_t channels = n % 2 ? 1 : 3;
        const dpti_image_shape of = {1 + test_random_below(&random, 20),
                                     1 + test_random_below(&random, 20), channels};
        const dpti_image_shape wanted = {1 + test_random_below(&random, 12),
                                         1 + test_random_below(&random, 12), channels};
        uint8_t *image = malloc(of.height * of.width * channels); /* of their own sizes, for */
        uint8_t *pixels = malloc(wanted.height * wanted.width * channels); /* the sanitizer */
        REQUIRE(image && pixels);
        fill(&random, image, of.height * of.width * channels);
        CHECK(scale_middle(image, &of, pixels, &wanted));
        for (size_t i = 0; i < wanted.height * wanted.width * channels; i++) {
            const size_t pixel = i / channels;
            const double expected = reference(image, &of, pixel / wanted.width,
                                              pixel % wanted.width, i % channels, &wanted);
            CHECK_NEAR(pixels[i], expected, 0.5 + 1e-6);
        }
        free(pixels);
        free(image);
    }
}

/* A sum is more than 32 bits hold. */
static void very_large(test *t)
{
    enum { SIDE = 4200 };
    static const dpti_image_shape of = {SIDE, SIDE, 1}, wanted = {1, 1, 1};
    const size_t half = (size_t)SIDE * SIDE / 2;
    uint8_t *image = malloc(2 * half), pixel = 0;
    REQUIRE(image);
    memset(image, 255, half);
    memset(image + half, 253, half);
    REQUIRE(scale_middle(image, &of, &pixel, &wanted));
    CHECK_SIZE(pixel, 254);
    free(image);
}

/* What is left of a strip is its middle. */
static void very_wide(test *t)
{
    enum { LONG = 1 << 20 };
    uint8_t *image = calloc(1, LONG), pixels[16];
    REQUIRE(image);
    image[LONG / 2 - 1] = 100;
    image[LONG / 2] = 50;
    for (size_t upright = 0; upright < 2; upright++) {
        const dpti_image_shape of = {upright ? LONG : 1, upright ? 1 : LONG, 1};
        const dpti_image_shape wanted = {4, 4, 1}, pair = {upright ? 2 : 1, upright ? 1 : 2, 1};
        REQUIRE(scale_middle(image, &of, pixels, &wanted));
        for (size_t i = 0; i < 16; i++)
            CHECK_SIZE(pixels[i], 100);
        REQUIRE(scale_middle(image, &of, pixels, &pair));
        CHECK_SIZE(pixels[0], 100);
        CHECK_SIZE(pixels[1], 50);
    }
    free(image);
}

/* ---- Random windows -------------------------------------------------------------------------- */

/* Inside of the image, of such an area and aspect, and not the same ones all the time. */
static void random_windows(test *t)
{
    static const struct {
        size size, wanted;
        double least;
    } cases[] = {
        {{375, 500}, {224, 224}, 0.08}, {{500, 375}, {64, 48}, 0.5}, {{40, 40}, {8, 8}, 1e-6},
        {{64, 48}, {64, 48}, 0.25},     {{3, 2}, {9, 9}, 0.01},
    };
    enum { DRAWS = 400 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const dpti_image_shape of = shape_of(cases[i].size, 3), to = shape_of(cases[i].wanted, 3);
        const double all = (double)(of.height * of.width);
        const double square = (double)to.width / (double)to.height;
        double least = 1, most = 0, sum = 0;
        for (size_t k = 0; k < DRAWS; k++) {
            dpti_random random;
            dpti_random_init(&random, 1, DPTI_RANDOM_CROP, k);
            const dpti_image_window w = dpti_scale_draw(&of, &to, cases[i].least, &random);
            const double h = (double)w.height, x = (double)w.width, part = h * x / all;
            REQUIRE(w.height >= 1 && w.top + w.height <= of.height);
            REQUIRE(w.width >= 1 && w.left + w.width <= of.width);
            /* But for rounding to pixels. */
            CHECK((h + 1) * (x + 1) / all >= cases[i].least);
            CHECK((x + 1) / (h - 1 > 0.5 ? h - 1 : 0.5) >= 0.75 * square);
            CHECK((x - 1) / (h + 1) <= square / 0.75);
            least = part < least ? part : least;
            most = part > most ? part : most;
            sum += part / DRAWS;
        }
        if (of.height * of.width < 100) continue;
        CHECK(least < cases[i].least + 0.1 && most > 0.8 && sum > 0.3 && sum < 0.8);
    }
}

/* Where none fits the middle is taken; and what is drawn is the same on every machine. */
static void known_windows(test *t)
{
    const dpti_image_shape strip = {2, 900, 1}, square = {8, 8, 1}, photo = {375, 500, 3},
                           image = {224, 224, 3};
    dpti_random random;
    dpti_random_init(&random, 7, DPTI_RANDOM_CROP, 1);
    dpti_image_window w = dpti_scale_draw(&strip, &square, 0.9, &random);
    CHECK(w.height == 2 && w.width == 2 && w.top == 0 && w.left == 449);
    static const dpti_image_window known[] = {
        {31, 49, 204, 232}, {24, 9, 335, 417}, {1, 36, 337, 307}};
    for (size_t i = 0; i < 3; i++) {
        dpti_random_init(&random, 7, DPTI_RANDOM_CROP, (uint64_t)3 << 32 | i);
        w = dpti_scale_draw(&photo, &image, 0.08, &random);
        if (!CHECK(memcmp(&w, &known[i], sizeof w) == 0))
            FAIL("{%zu, %zu, %zu, %zu}", w.top, w.left, w.height, w.width);
    }
}

/* A window of an image is scaled as the image that it would be alone. */
static void windows_are_images(test *t)
{
    enum { SIDE = 20, H = 7, W = 11, TOP = 5, LEFT = 8 };
    static const size sizes[] = {{3, 4}, {7, 11}, {13, 30}, {1, 1}};
    uint8_t image[SIDE * SIDE * 3], alone[H * W * 3], a[30 * 13 * 3], b[30 * 13 * 3];
    const dpti_image_shape of = {SIDE, SIDE, 3}, part = {H, W, 3};
    const dpti_image_window window = {TOP, LEFT, H, W}, whole = {0, 0, H, W};
    test_random random = {5};
    fill(&random, image, sizeof image);
    for (size_t y = 0; y < H; y++)
        memcpy(alone + y * W * 3, image + ((y + TOP) * SIDE + LEFT) * 3, W * 3);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const dpti_image_shape to = shape_of(sizes[i], 3);
        REQUIRE(dpti_scale(&(dpti_scale_source){image, of, window}, a, &to));
        REQUIRE(dpti_scale(&(dpti_scale_source){alone, part, whole}, b, &to));
        CHECK(memcmp(a, b, to.height * to.width * 3) == 0);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"random windows", random_windows},
        {"known windows", known_windows},
        {"windows are images", windows_are_images},
        {"fractions worked out by hand", by_hand},
        {"what is cut", cuts},
        {"a constant picture stays constant", constant_stays},
        {"a picture of the wanted size stays as it is", same_size_stays},
        {"means of whole boxes", whole_factors},
        {"the same as a slow reference", compare_with_reference},
        {"very large", very_large},
        {"very wide and very high", very_wide},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
