/* LeNet in double precision, from the mathematics: NCHW, no layouts shared with the library. */
#include "train/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIDE0 = 28,
    C1 = 20,
    K1 = 3,
    SIDE1 = SIDE0 - K1 + 1, /* 26 */
    POOL1 = SIDE1 / 2,      /* 13 */
    C2 = 50,
    K2 = 5,
    SIDE2 = POOL1 - K2 + 1, /* 9 */
    POOL2 = SIDE2 / 2,      /* 4: the last row and column are left out */
    FLAT = C2 * POOL2 * POOL2,
    HIDDEN = 128,
    CLASSES = 10,
};

const char *const lenet_names[LENET_TENSORS] = {"conv1.weight", "conv1.bias", "conv2.weight",
                                                "conv2.bias",   "fc1.weight", "fc1.bias",
                                                "fc2.weight",   "fc2.bias"};

const size_t lenet_sizes[LENET_TENSORS] = {C1 * K1 * K1, C1,     C2 *C1 *K2 *K2,  C2,
                                           HIDDEN *FLAT, HIDDEN, CLASSES *HIDDEN, CLASSES};

bool lenet64_create(lenet64 *out)
{
    bool complete = true;
    for (int i = 0; i < LENET_TENSORS; i++) {
        out->tensor[i] = calloc(lenet_sizes[i], sizeof(double));
        complete = complete && out->tensor[i];
    }
    return complete;
}

void lenet64_free(lenet64 *l)
{
    for (int i = 0; i < LENET_TENSORS; i++)
        free(l->tensor[i]);
}

/* One sample's values and the gradients that flow back through them. */
typedef struct sample {
    double x[SIDE0 * SIDE0];
    double a1[C1 * SIDE1 * SIDE1], p1[C1 * POOL1 * POOL1];
    double a2[C2 * SIDE2 * SIDE2], p2[FLAT];
    double h[HIDDEN], z[CLASSES];
    double da1[C1 * SIDE1 * SIDE1], dp1[C1 * POOL1 * POOL1];
    double da2[C2 * SIDE2 * SIDE2], dp2[FLAT];
    double dh[HIDDEN], dz[CLASSES];
} sample;

typedef struct conv {
    int c_in, c_out, side_in, side_out, k;
} conv;

static const conv conv1 = {1, C1, SIDE0, SIDE1, K1};
static const conv conv2 = {C1, C2, POOL1, SIDE2, K2};

#define FOR(i, n)     for (int i = 0; i < (n); i++)
#define X(c, h, w)    x[((c)*g->side_in + (h)) * g->side_in + (w)]
#define Y(o, h, w)    y[((o)*g->side_out + (h)) * g->side_out + (w)]
#define W(o, c, r, s) w[(((o)*g->c_in + (c)) * g->k + (r)) * g->k + (s)]

static void conv_relu(const conv *g, const double *x, const double *w, const double *b, double *y)
{
    FOR(o, g->c_out) FOR(i, g->side_out) FOR(j, g->side_out)
    {
        double sum = b[o];
        FOR(c, g->c_in) FOR(r, g->k) FOR(s, g->k) sum += X(c, i + r, j + s) * W(o, c, r, s);
        Y(o, i, j) = sum > 0 ? sum : 0;
    }
}

/* y holds the gradient before the activation; dx may be NULL. */
static void conv_backward(const conv *g, const double *x, const double *w, const double *y,
                          double *dw, double *db, double *dx)
{
    FOR(o, g->c_out) FOR(i, g->side_out) FOR(j, g->side_out)
    {
        const double d = Y(o, i, j);
        db[o] += d;
        FOR(c, g->c_in) FOR(r, g->k) FOR(s, g->k)
        {
            dw[((o * g->c_in + c) * g->k + r) * g->k + s] += d * X(c, i + r, j + s);
            if (dx) dx[(c * g->side_in + i + r) * g->side_in + j + s] += d * W(o, c, r, s);
        }
    }
}

static void pool(int channels, int side, const double *x, double *y)
{
    const int half = side / 2;
    FOR(c, channels) FOR(i, half) FOR(j, half)
    {
        const double *p = x + (c * side + 2 * i) * side + 2 * j;
        y[(c * half + i) * half + j] = (p[0] + p[1] + p[side] + p[side + 1]) / 4;
    }
}

/* Through the pool, and through the ReLU before it, whose output is a. */
static void pool_relu_backward(int channels, int side, const double *dy, const double *a,
                               double *dx)
{
    const int half = side / 2;
    FOR(c, channels) FOR(i, side) FOR(j, side)
    {
        const int at = (c * side + i) * side + j;
        const bool inside = i / 2 < half && j / 2 < half;
        dx[at] = inside && a[at] > 0 ? dy[(c * half + i / 2) * half + j / 2] / 4 : 0;
    }
}

static void linear(int n_in, int n_out, const double *x, const double *w, const double *b,
                   double *y)
{
    FOR(o, n_out)
    {
        y[o] = b[o];
        FOR(i, n_in) y[o] += w[o * n_in + i] * x[i];
    }
}

static void linear_backward(int n_in, int n_out, const double *x, const double *w, const double *dy,
                            double *dw, double *db, double *dx)
{
    FOR(i, n_in) dx[i] = 0;
    FOR(o, n_out)
    {
        db[o] += dy[o];
        FOR(i, n_in)
        {
            dw[o * n_in + i] += dy[o] * x[i];
            dx[i] += dy[o] * w[o * n_in + i];
        }
    }
}

static double loss_and_gradient(sample *s, int label, double scale)
{
    double top = s->z[0], sum = 0;
    FOR(i, CLASSES) top = fmax(top, s->z[i]);
    FOR(i, CLASSES) sum += exp(s->z[i] - top);
    FOR(i, CLASSES) s->dz[i] = scale * (exp(s->z[i] - top) / sum - (i == label));
    return log(sum) + top - s->z[label];
}

static double one_sample(sample *s, double *const *w, int label, double scale, double *const *d)
{
    conv_relu(&conv1, s->x, w[0], w[1], s->a1);
    pool(C1, SIDE1, s->a1, s->p1);
    conv_relu(&conv2, s->p1, w[2], w[3], s->a2);
    pool(C2, SIDE2, s->a2, s->p2);
    linear(FLAT, HIDDEN, s->p2, w[4], w[5], s->h);
    FOR(i, HIDDEN) s->h[i] = s->h[i] > 0 ? s->h[i] : 0;
    linear(HIDDEN, CLASSES, s->h, w[6], w[7], s->z);
    const double loss = loss_and_gradient(s, label, scale);

    linear_backward(HIDDEN, CLASSES, s->h, w[6], s->dz, d[6], d[7], s->dh);
    FOR(i, HIDDEN) s->dh[i] = s->h[i] > 0 ? s->dh[i] : 0;
    linear_backward(FLAT, HIDDEN, s->p2, w[4], s->dh, d[4], d[5], s->dp2);
    pool_relu_backward(C2, SIDE2, s->dp2, s->a2, s->da2);
    memset(s->dp1, 0, sizeof s->dp1);
    conv_backward(&conv2, s->p1, w[2], s->da2, d[2], d[3], s->dp1);
    pool_relu_backward(C1, SIDE1, s->dp1, s->a1, s->da1);
    conv_backward(&conv1, s->x, w[0], s->da1, d[0], d[1], NULL);
    return loss;
}

double lenet64_gradients(const lenet64 *weights, const double *images, const uint8_t *labels,
                         size_t n, lenet64 *gradients)
{
    sample *s = calloc(1, sizeof *s);
    if (!s) return NAN;
    for (int i = 0; i < LENET_TENSORS; i++)
        memset(gradients->tensor[i], 0, lenet_sizes[i] * sizeof(double));
    double loss = 0;
    for (size_t i = 0; i < n; i++) {
        memcpy(s->x, images + i * SIDE0 * SIDE0, sizeof s->x);
        loss += one_sample(s, weights->tensor, labels[i], 1.0 / (double)n, gradients->tensor);
    }
    free(s);
    return loss / (double)n;
}
