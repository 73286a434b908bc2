/* Compares the gradients of the reference with central differences of the whole computation,
   statistics included, for layer-norm, and for batch-norm of a batch that devices share. */
#include "gradient.h"
#include "reference/reference.h"

static const double tolerance = 2e-8;

/* Also that the check would notice one wrong element. */
static void compare(test *t, const char *what, double *analytic, const double *numeric, size_t n)
{
    if (!CHECK(worst(analytic, numeric, n) <= tolerance))
        FAIL("%s: off by %.3g of the largest gradient", what, worst(analytic, numeric, n));
    analytic[n / 2] += 1e-6 * fmax(1.0, fabs(analytic[n / 2])) * (double)n;
    CHECK(!(worst(analytic, numeric, n) <= tolerance));
}

/* ---- Batch-norm ------------------------------------------------------------------------------ */

enum { DEVICES = 3, MOST = 160, CHANNELS = 3 };

/* y = activation(bn(x) + residual), x = input_activation(before), L = sum of g * y, where the
   samples are divided among the devices. */
typedef struct shared_norm {
    dpt_batch_norm_desc desc;
    size_t samples[DEVICES], n_samples;
    bool frozen; /* statistics that do not follow from x */
    double before[MOST], x[MOST], residual[MOST], g[MOST], y[MOST];
    double w[CHANNELS], b[CHANNELS], moments[3 * CHANNELS];
    double mean[CHANNELS], variance[CHANNELS]; /* of the batch, or frozen */
} shared_norm;

static void run(const shared_norm *s, dpt_op_kind kind, size_t n, const reference_args *args)
{
    reference_args own = *args;
    own.inv_batch = 1.0 / (double)s->n_samples;
    const dpt_op_desc desc = {.kind = kind, .u.batch_norm = s->desc};
    reference_run(&desc, n, &own);
}

static size_t sample_size(const shared_norm *s)
{
    return s->desc.area * s->desc.channels;
}

/* Moments of all devices' parts; every device adds its share to mean and variance. */
static void exchange(shared_norm *s)
{
    double parts[DEVICES * 3 * CHANNELS];
    size_t first = 0;
    for (size_t i = 0; i < DEVICES; first += s->samples[i++]) {
        run(s, DPT_OP_BATCH_NORM_PARTIAL, s->samples[i],
            &(reference_args){.in = {s->x + first * sample_size(s)},
                              .out = {parts + i * 3 * s->desc.channels}});
    }
    for (size_t i = 0; i < DEVICES; i++) {
        run(s, DPT_OP_BATCH_NORM_MERGE, s->samples[i],
            &(reference_args){
                .in = {parts}, .out = {s->moments, s->mean, s->variance}, .accumulate = i > 0});
    }
}

static double shared_objective(void *argument)
{
    shared_norm *s = argument;
    const size_t n = s->n_samples * sample_size(s);
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        s->x[i] = reference_activate(s->desc.input_activation, s->before[i]);
    if (s->frozen)
        run(s, DPT_OP_BATCH_NORM_FREEZE, 1,
            &(reference_args){.in = {s->mean, s->variance}, .out = {s->moments}});
    else
        exchange(s);
    run(s, DPT_OP_BATCH_NORM_FORWARD, s->n_samples,
        &(reference_args){.in = {s->x, s->moments, s->w, s->b, s->residual}, .out = {s->y}});
    for (size_t i = 0; i < n; i++)
        sum += s->g[i] * s->y[i];
    return sum;
}

typedef struct shared_gradients {
    double dx[MOST], dy[MOST]; /* dy is the residual's gradient too */
    double dw[CHANNELS], db[CHANNELS];
} shared_gradients;

static void shared_backward(const shared_norm *s, shared_gradients *out)
{
    double parts[DEVICES * 2 * CHANNELS];
    size_t first = 0;
    for (size_t i = 0; i < s->n_samples * sample_size(s); i++)
        out->dy[i] = s->g[i] * reference_slope(s->desc.activation, s->y[i]);
    for (size_t i = 0; i < DEVICES; first += s->samples[i++]) {
        const size_t at = first * sample_size(s);
        run(s, DPT_OP_BATCH_NORM_BACKWARD_PARTIAL, s->samples[i],
            &(reference_args){.in = {out->dy + at, s->x + at, s->moments},
                              .out = {parts + i * 2 * s->desc.channels, out->dw, out->db},
                              .accumulate = i > 0});
    }
    run(s, DPT_OP_BATCH_NORM_BACKWARD_DATA, s->n_samples,
        &(reference_args){.in = {out->dy, s->x, s->moments, s->w, parts}, .out = {out->dx}});
}

static shared_norm shared_create(const dpt_batch_norm_desc *desc, const size_t samples[DEVICES],
                                 uint64_t seed)
{
    shared_norm s = {.desc = *desc};
    test_random random = {seed};
    s.desc.n_parts = DEVICES;
    s.desc.epsilon = 1e-2f;
    for (size_t i = 0; i < DEVICES; i++)
        s.n_samples += s.samples[i] = samples[i];
    fill(&random, s.before, MOST);
    fill(&random, s.residual, MOST);
    fill(&random, s.g, MOST);
    fill(&random, s.w, CHANNELS);
    fill(&random, s.b, CHANNELS);
    return s;
}

static void check_shared(test *t, shared_norm *s)
{
    static shared_gradients gradients;
    static double numeric[MOST];
    const size_t n = s->n_samples * sample_size(s), channels = s->desc.channels;
    REQUIRE(n <= MOST && channels <= CHANNELS);
    (void)shared_objective(s);
    shared_backward(s, &gradients);
    central_differences(shared_objective, s, 1e-5, s->before, n, numeric);
    compare(t, "x", gradients.dx, numeric, n);
    central_differences(shared_objective, s, 1e-5, s->w, channels, numeric);
    compare(t, "w", gradients.dw, numeric, channels);
    central_differences(shared_objective, s, 1e-5, s->b, channels, numeric);
    compare(t, "b", gradients.db, numeric, channels);
    if (!s->desc.has_residual) return;
    central_differences(shared_objective, s, 1e-5, s->residual, n, numeric);
    compare(t, "residual", gradients.dy, numeric, n);
}

static void batch_norm_gradients(test *t)
{
    static const dpt_batch_norm_desc descs[] = {
        {.area = 4, .channels = 3},
        {.area = 1, .channels = 1},
        {.area = 5, .channels = 2, .has_residual = true, .activation = DPT_ACT_TANH},
        {.area = 2, .channels = 3, .has_residual = true, .input_activation = DPT_ACT_SIGMOID},
        {.area = 3, .channels = 2, .activation = DPT_ACT_SIGMOID, .input_activation = DPT_ACT_TANH},
    };
    static const size_t samples[][DEVICES] = {{2, 3, 1}, {5, 0, 1}, {0, 0, 4}, {0, 1, 0}};
    for (size_t i = 0; i < sizeof descs / sizeof *descs; i++) {
        for (size_t k = 0; k < sizeof samples / sizeof *samples; k++) {
            shared_norm s = shared_create(&descs[i], samples[k], 81 + 10 * i + k);
            check_shared(t, &s);
        }
    }
}

static void frozen_gradients(test *t)
{
    const dpt_batch_norm_desc desc = {
        .area = 3, .channels = 3, .has_residual = true, .activation = DPT_ACT_TANH};
    shared_norm s = shared_create(&desc, (const size_t[DEVICES]){2, 0, 2}, 131);
    const double mean[] = {0.5, -1.0, 2.0}, variance[] = {1.5, 0.1, 4.0};
    s.frozen = true;
    for (size_t c = 0; c < CHANNELS; c++) {
        s.mean[c] = mean[c];
        s.variance[c] = variance[c];
    }
    check_shared(t, &s);
}

/* However the samples are divided, moments and the sums of mean and variance over the devices are
   those of the batch. */
static void division(test *t)
{
    static const size_t samples[][DEVICES] = {{6, 0, 0}, {2, 3, 1}, {0, 5, 1}, {1, 1, 4}};
    const dpt_batch_norm_desc desc = {.area = 4, .channels = 3};
    shared_norm whole = shared_create(&desc, samples[0], 141);
    (void)shared_objective(&whole);
    for (size_t k = 1; k < sizeof samples / sizeof *samples; k++) {
        shared_norm s = shared_create(&desc, samples[k], 141);
        (void)shared_objective(&s);
        for (size_t i = 0; i < 3 * CHANNELS; i++)
            CHECK_NEAR(s.moments[i], whole.moments[i], 1e-12);
        for (size_t c = 0; c < CHANNELS; c++) {
            CHECK_NEAR(s.mean[c], whole.moments[c], 1e-12);
            CHECK_NEAR(s.variance[c], whole.variance[c], 1e-12);
        }
    }
}

/* ---- Layer-norm ------------------------------------------------------------------------------ */

typedef struct layer {
    dpt_op_desc desc;
    size_t n_samples, n; /* samples, elements */
    double before[MOST], x[MOST], g[MOST], y[MOST], w[MOST], b[MOST], moments[MOST];
} layer;

static double layer_objective(void *argument)
{
    layer *l = argument;
    double sum = 0.0;
    for (size_t i = 0; i < l->n; i++)
        l->x[i] = reference_activate(l->desc.u.layer_norm.input_activation, l->before[i]);
    l->desc.kind = DPT_OP_LAYER_NORM_FORWARD;
    reference_run(&l->desc, l->n_samples,
                  &(reference_args){.in = {l->x, l->w, l->b}, .out = {l->y, l->moments}});
    for (size_t i = 0; i < l->n; i++)
        sum += l->g[i] * l->y[i];
    return sum;
}

static void check_layer(test *t, layer *l)
{
    static double dx[MOST], dw[MOST], db[MOST], numeric[MOST];
    const size_t channels = l->desc.u.layer_norm.channels;
    (void)layer_objective(l);
    l->desc.kind = DPT_OP_LAYER_NORM_BACKWARD_DATA;
    reference_run(&l->desc, l->n_samples,
                  &(reference_args){.in = {l->g, l->x, l->moments, l->w}, .out = {dx}});
    l->desc.kind = DPT_OP_LAYER_NORM_BACKWARD_WEIGHTS;
    reference_run(&l->desc, l->n_samples,
                  &(reference_args){.in = {l->g, l->x, l->moments}, .out = {dw, db}});
    central_differences(layer_objective, l, 1e-5, l->before, l->n, numeric);
    compare(t, "x", dx, numeric, l->n);
    central_differences(layer_objective, l, 1e-5, l->w, channels, numeric);
    compare(t, "w", dw, numeric, channels);
    central_differences(layer_objective, l, 1e-5, l->b, channels, numeric);
    compare(t, "b", db, numeric, channels);
}

static void layer_norm_gradients(test *t)
{
    static const dpt_layer_norm_desc descs[] = {
        {.rows = 1, .channels = 1},
        {.rows = 3, .channels = 7},
        {.rows = 2, .channels = 9, .input_activation = DPT_ACT_TANH},
        {.rows = 1, .channels = 17, .input_activation = DPT_ACT_SIGMOID},
    };
    static layer l;
    for (size_t i = 0; i < sizeof descs / sizeof *descs; i++) {
        test_random random = {151 + i};
        l.desc.u.layer_norm = descs[i];
        l.desc.u.layer_norm.epsilon = 1e-2f;
        l.n_samples = 3;
        l.n = l.n_samples * descs[i].rows * descs[i].channels;
        fill(&random, l.before, MOST);
        fill(&random, l.g, MOST);
        fill(&random, l.w, MOST);
        fill(&random, l.b, MOST);
        check_layer(t, &l);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"batch_norm", batch_norm_gradients},
        {"frozen_batch_norm", frozen_gradients},
        {"division", division},
        {"layer_norm", layer_norm_gradients},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
