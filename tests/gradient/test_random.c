/* Tests the random numbers of the reference: Philox against its authors' known answers, dropout
   masks and augmented images against their specification.  Backends are compared with the
   reference element by element, for samples at any place of a batch. */
#include "harness.h"
#include "reference/reference.h"

#include <math.h>
#include <string.h>

/* From Random123's kat_vectors. */
static void philox_known_answers(test *t)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
         {UINT32_MAX, UINT32_MAX},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t out[4];
        reference_philox(cases[i].counter, cases[i].key, out);
        CHECK(memcmp(out, cases[i].out, sizeof out) == 0);
    }
}

/* A count that is expected n * p times stays within five standard deviations. */
static bool plausible(size_t count, size_t n, double p)
{
    const double mean = (double)n * p;
    return fabs((double)count - mean) <= 5.0 * sqrt(mean * (1.0 - p)) + 1e-9;
}

/* ---- Dropout --------------------------------------------------------------------------------- */

enum { COUNT = 20011 }; /* of a sample: no multiple of the four words of a block */

/* The mask of one sample, alone in its batch. */
static void mask_of(float p, uint32_t stream, double sample, const reference_args *drawn,
                    double *mask)
{
    static double ones[COUNT];
    const dpt_op_desc desc = {.kind = DPT_OP_DROPOUT,
                              .u.dropout = {.count = COUNT, .p = p, .stream = stream}};
    reference_args args = *drawn;
    for (size_t i = 0; i < COUNT; i++)
        ones[i] = 1.0;
    args.in[0] = ones;
    args.in[1] = &sample;
    args.out[0] = mask;
    reference_run(&desc, 1, &args);
}

static void keep_rates(test *t)
{
    static const float rates[] = {0.0f, 0.1f, 0.5f, 0.9f};
    static double mask[COUNT];
    for (size_t k = 0; k < sizeof rates / sizeof *rates; k++) {
        const double kept_value = 1.0 / (1.0 - (double)rates[k]);
        size_t kept = 0, pairs = 0;
        mask_of(rates[k], 1, 7, &(reference_args){.seed = {3, 4}, .epoch = 1}, mask);
        for (size_t i = 0; i < COUNT; i++) {
            if (!(mask[i] == 0.0 || mask[i] == kept_value)) FAIL("element %zu is %g", i, mask[i]);
            kept += mask[i] != 0.0;
            pairs += i > 0 && mask[i] != 0.0 && mask[i - 1] != 0.0;
        }
        const double keep = 1.0 - (double)rates[k];
        CHECK(plausible(kept, COUNT, keep));
        CHECK(plausible(pairs / 2, COUNT / 2, keep * keep)); /* neighbours know nothing of it */
    }
}

/* Another sample, epoch, stream or seed is another, independent mask. */
static void independent_masks(test *t)
{
    static const struct {
        double sample;
        uint32_t stream;
        reference_args args;
    } others[] = {
        {8, 1, {.seed = {3, 4}, .epoch = 1}}, {7, 2, {.seed = {3, 4}, .epoch = 1}},
        {7, 1, {.seed = {3, 4}, .epoch = 2}}, {7, 1, {.seed = {4, 4}, .epoch = 1}},
        {7, 1, {.seed = {3, 5}, .epoch = 1}}, {1, 7, {.seed = {3, 4}, .epoch = 1}},
    };
    static double mask[COUNT], other[COUNT];
    mask_of(0.5f, 1, 7, &(reference_args){.seed = {3, 4}, .epoch = 1}, mask);
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        size_t equal = 0;
        mask_of(0.5f, others[k].stream, others[k].sample, &others[k].args, other);
        for (size_t i = 0; i < COUNT; i++)
            equal += mask[i] == other[i];
        if (!CHECK(plausible(equal, COUNT, 0.5))) FAIL("case %zu: %zu equal", k, equal);
    }
}

/* A sample's mask is the same in whatever batch and place it lies. */
static void places_in_the_batch(test *t)
{
    enum { N = 3, EACH = 37 };
    const dpt_op_desc desc = {.kind = DPT_OP_DROPOUT,
                              .u.dropout = {.count = EACH, .p = 0.5f, .stream = 1}};
    const double one[] = {4000000000.0}, three[] = {5, 6, 4000000000.0};
    double x[N * EACH], alone[EACH], batch[N * EACH];
    reference_args args = {.in = {x, one}, .out = {alone}, .seed = {1, 2}, .epoch = 9};
    for (size_t i = 0; i < N * EACH; i++)
        x[i] = 1.0;
    reference_run(&desc, 1, &args);
    args.in[1] = three;
    args.out[0] = batch;
    reference_run(&desc, N, &args);
    CHECK(memcmp(alone, batch + 2 * EACH, sizeof alone) == 0);
    CHECK(memcmp(alone, batch, sizeof alone) != 0);
}

/* ---- Augmentation ---------------------------------------------------------------------------- */

enum { H = 5, W = 4, PAD = 2, SHIFTS = 2 * PAD + 1, SAMPLES = 4000 };

/* One image in which every pixel is another number; `samples` augmentations of it. */
static void augment(const dpt_augment *a, double *out)
{
    static double index[SAMPLES], sample[SAMPLES];
    double image[H * W];
    const dpt_op_desc desc = {.kind = DPT_OP_GATHER,
                              .u.gather = {.dtype = DPT_F32,
                                           .count = H * W,
                                           .n_records = 1,
                                           .channels = 1,
                                           .mean = {-100},
                                           .scale = {1},
                                           .augment = *a}};
    for (size_t i = 0; i < H * W; i++)
        image[i] = 1.0 + (double)i;
    for (size_t i = 0; i < SAMPLES; i++)
        sample[i] = (double)i;
    reference_run(&desc, SAMPLES,
                  &(reference_args){
                      .in = {image, index, sample}, .out = {out}, .seed = {11, 12}, .epoch = 3});
}

/* Whether an augmented image is the one that is moved by (top, left) and, if so, flipped. */
static bool is_window(const double *x, int top, int left, bool flipped)
{
    for (int y = 0; y < H; y++) {
        for (int c = 0; c < W; c++) {
            const int row = y + top, column = (flipped ? W - 1 - c : c) + left;
            const bool inside = row >= 0 && row < H && column >= 0 && column < W;
            /* The padding is zero before normalisation, so it is 100 behind it. */
            const double expected = 100.0 + (inside ? 1.0 + (double)(row * W + column) : 0.0);
            if (x[y * W + c] != expected) return false;
        }
    }
    return true;
}

static void crops_and_flips(test *t)
{
    static double x[SAMPLES * H * W];
    size_t seen[SHIFTS][SHIFTS][2] = {{{0}}}, total = 0;
    augment(&(dpt_augment){.height = H, .width = W, .pad = PAD, .flip = true}, x);
    for (size_t i = 0; i < SAMPLES; i++) {
        for (int k = 0; k < SHIFTS * SHIFTS * 2; k++) {
            const int top = k / 2 / SHIFTS, left = k / 2 % SHIFTS;
            if (!is_window(x + i * H * W, top - PAD, left - PAD, k % 2 == 1)) continue;
            seen[top][left][k % 2]++;
            total++;
        }
    }
    CHECK_SIZE(total, SAMPLES);
    for (size_t k = 0; k < SHIFTS * SHIFTS * 2; k++) {
        const size_t count = seen[k / 2 / SHIFTS][k / 2 % SHIFTS][k % 2];
        if (!CHECK(plausible(count, SAMPLES, 1.0 / (SHIFTS * SHIFTS * 2)))) FAIL("%zu", k);
    }
}

/* The zeros, which no pixel is, are one rectangle smaller than the image; its area. */
static size_t erased_area(test *t, const double *x)
{
    size_t area = 0, top = H, bottom = 0, left = W, right = 0;
    for (size_t i = 0; i < H * W; i++) {
        if (x[i] != 0.0) continue;
        area++;
        top = i / W < top ? i / W : top;
        bottom = i / W + 1;
        left = i % W < left ? i % W : left;
        right = i % W + 1 > right ? i % W + 1 : right;
    }
    if (area > 0) CHECK(area == (bottom - top) * (right - left));
    CHECK(area == 0 || (bottom - top < H && right - left < W));
    return area;
}

static void erasing(test *t)
{
    static double x[SAMPLES * H * W];
    size_t erased = 0, most = 0, corner = 0;
    augment(&(dpt_augment){.height = H, .width = W, .erase = 0.25f}, x);
    for (size_t i = 0; i < SAMPLES; i++) {
        const size_t area = erased_area(t, x + i * H * W);
        erased += area > 0;
        most = area > most ? area : most;
        corner += x[i * H * W + H * W - 1] == 0.0;
    }
    CHECK(plausible(erased, SAMPLES, 0.25));
    CHECK(corner > 0);
    /* 0.33 of 20 pixels, and what rounding the sides adds */
    CHECK(most >= 4 && most <= 9);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"philox_known_answers", philox_known_answers},
        {"keep_rates", keep_rates},
        {"independent_masks", independent_masks},
        {"places_in_the_batch", places_in_the_batch},
        {"crops_and_flips", crops_and_flips},
        {"erasing", erasing},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
