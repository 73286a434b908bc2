/* Deterministic Winograd convolutions in loops that are as plain as possible.  Every sum,
   difference and product rounds by itself; fmaf stands where docs/reproducibility.md has a fused
   one. */
#include "winograd.h"
#include "common/winograd_rule.h"

#include <math.h>
#include <string.h>

enum { MOST_SIDE = 7 };

/* The edge of a tile in outputs, the taps, and the edge of a transformed tile. */
typedef struct tiling {
    size_t edge, taps, side;
} tiling;

static const float root_half = 0x1.6a09e6p-1f, root_two = 0x1.6a09e6p+0f;

/* ---- Transforms in one dimension ------------------------------------------------------------- */

/* Transforms a line in place.  n: the numbers that `evaluate` reads, and that `interpolate` makes.
 */
typedef void line_transform(float *line, size_t n, size_t side);

static void data_pair(const float *d, float point, float sum, float product, float *u)
{
    const float even = fmaf(-sum, d[4], fmaf(product, d[2], d[6]));
    const float odd = fmaf(-sum, d[3], fmaf(product, d[1], d[5]));
    u[0] = fmaf(point, odd, even);
    u[1] = fmaf(-point, odd, even);
}

static void data(float *line, size_t n, size_t side)
{
    float d[MOST_SIDE];
    (void)n;
    memcpy(d, line, sizeof d);
    if (side == 4) {
        line[0] = d[0] - d[2];
        line[1] = d[2] + d[1];
        line[2] = d[2] - d[1];
        line[3] = d[3] - d[1];
    } else if (side == 6) {
        const float even_a = fmaf(-2.0f, d[2], d[4]), odd_a = root_half * fmaf(-2.0f, d[1], d[3]);
        const float even_b = fmaf(-0.5f, d[2], d[4]), odd_b = root_two * fmaf(-0.5f, d[1], d[3]);
        line[0] = fmaf(-2.5f, d[2], d[0] + d[4]);
        line[1] = even_a + odd_a;
        line[2] = even_a - odd_a;
        line[3] = even_b + odd_b;
        line[4] = even_b - odd_b;
        line[5] = fmaf(-2.5f, d[3], d[1] + d[5]);
    } else {
        line[0] = fmaf(16.703125f, d[2], fmaf(-3.515625f, d[0], fmaf(-10.8125f, d[4], d[6])));
        data_pair(d, 0.5f, 10.5625f, 14.0625f, line + 1);
        data_pair(d, 1.25f, 9.25f, 2.25f, line + 3);
        data_pair(d, 3.0f, 1.8125f, 0.390625f, line + 5);
    }
}

static void adjoint_7(const float *u, float *d)
{
    const float even[] = {u[1] + u[2], u[3] + u[4], u[5] + u[6]};
    const float odd[] = {0.5f * (u[1] - u[2]), 1.25f * (u[3] - u[4]), 3.0f * (u[5] - u[6])};
    d[0] = -3.515625f * u[0];
    d[1] = fmaf(14.0625f, odd[0], fmaf(2.25f, odd[1], 0.390625f * odd[2]));
    d[2] =
        fmaf(14.0625f, even[0], fmaf(2.25f, even[1], fmaf(0.390625f, even[2], 16.703125f * u[0])));
    d[3] = fmaf(-10.5625f, odd[0], fmaf(-9.25f, odd[1], -1.8125f * odd[2]));
    d[4] =
        fmaf(-10.5625f, even[0], fmaf(-9.25f, even[1], fmaf(-1.8125f, even[2], -10.8125f * u[0])));
    d[5] = odd[0] + (odd[1] + odd[2]);
    d[6] = (u[0] + even[0]) + (even[1] + even[2]);
}

static void adjoint(float *line, size_t n, size_t side)
{
    float u[MOST_SIDE];
    (void)n;
    memcpy(u, line, sizeof u);
    if (side == 4) {
        line[1] = (u[1] - u[2]) - u[3];
        line[2] = (u[1] + u[2]) - u[0];
    } else if (side == 6) {
        const float even_a = u[1] + u[2], odd_a = root_half * (u[1] - u[2]);
        const float even_b = u[3] + u[4], odd_b = root_two * (u[3] - u[4]);
        line[1] = fmaf(-0.5f, odd_b, fmaf(-2.0f, odd_a, u[5]));
        line[2] = fmaf(-0.5f, even_b, fmaf(-2.0f, even_a, -2.5f * u[0]));
        line[3] = fmaf(-2.5f, u[5], odd_a + odd_b);
        line[4] = u[0] + (even_a + even_b);
    } else {
        adjoint_7(u, line);
    }
}

/* The polynomial with the n coefficients g at +-point. */
static void evaluate_pair(const float *g, size_t n, float point, float square, float *u)
{
    float even = 0.0f, odd = 0.0f;
    for (size_t k = n; k-- > 0;) {
        float *sum = k % 2 ? &odd : &even;
        *sum = k + 2 < n ? fmaf(square, *sum, g[k]) : g[k];
    }
    u[0] = even + point * odd;
    u[1] = even - point * odd;
}

static void evaluate(float *line, size_t n, size_t side)
{
    float g[MOST_SIDE];
    memcpy(g, line, sizeof g);
    line[side - 1] = g[n - 1]; /* infinity; 7 points do not have it */
    if (side == 4) {
        evaluate_pair(g, n, 1.0f, 1.0f, line + 1);
    } else if (side == 6) {
        evaluate_pair(g, n, root_half, 0.5f, line + 1);
        evaluate_pair(g, n, root_two, 2.0f, line + 3);
    } else {
        evaluate_pair(g, n, 0.5f, 0.25f, line + 1);
        evaluate_pair(g, n, 1.25f, 1.5625f, line + 3);
        evaluate_pair(g, n, 3.0f, 9.0f, line + 5);
    }
}

/* Adds the terms of the products m at +-point.  has: whether y[k] has terms already. */
static void add_pair(const float *m, float point, float square, float *y, size_t n, bool *has)
{
    const float even = m[0] + m[1], odd = point * (m[0] - m[1]);
    float power = 1.0f;
    for (size_t k = 0; k < n; k++) {
        const float part = k % 2 ? odd : even;
        y[k] = has[k] ? fmaf(power, part, y[k]) : power * part;
        has[k] = true;
        if (k % 2) power *= square;
    }
}

static void interpolate(float *line, size_t n, size_t side)
{
    float m[MOST_SIDE];
    bool has[MOST_SIDE] = {false};
    memcpy(m, line, sizeof m);
    if (side < 7) {
        line[n - 1] = m[side - 1];
        has[n - 1] = true;
    }
    if (side == 4) {
        add_pair(m + 1, 1.0f, 1.0f, line, n, has);
    } else if (side == 6) {
        add_pair(m + 3, root_two, 2.0f, line, n, has);
        add_pair(m + 1, root_half, 0.5f, line, n, has);
    } else {
        add_pair(m + 5, 3.0f, 9.0f, line, n, has);
        add_pair(m + 3, 1.25f, 1.5625f, line, n, has);
        add_pair(m + 1, 0.5f, 0.25f, line, n, has);
    }
    line[0] = m[0] + line[0];
}

static float weight(size_t i, size_t side)
{
    static const float of_4[] = {1.0f, 0.5f, 0.5f, 1.0f};
    static const float of_6[] = {1.0f,           -0x1.555556p-1f, -0x1.555556p-1f,
                                 0x1.555556p-3f, 0x1.555556p-3f,  1.0f};
    static const float of_7[] = {-0x1.234568p-2f, 0x1.64a894p-3f,  0x1.64a894p-3f, -0x1.0c8afap-5f,
                                 -0x1.0c8afap-5f, 0x1.bf924ap-11f, 0x1.bf924ap-11f};
    return side == 4 ? of_4[i] : side == 6 ? of_6[i] : of_7[i];
}

/* ---- Transforms of tiles --------------------------------------------------------------------- */

typedef struct grid {
    float at[MOST_SIDE][MOST_SIDE];
} grid;

/* Transforms the first n_lines rows. */
static void across(line_transform *transform, size_t n_lines, size_t n, size_t side, grid *g)
{
    for (size_t i = 0; i < n_lines; i++)
        transform(g->at[i], n, side);
}

static void turn(grid *g)
{
    for (size_t i = 0; i < MOST_SIDE; i++) {
        for (size_t j = 0; j < i; j++) {
            const float held = g->at[i][j];
            g->at[i][j] = g->at[j][i];
            g->at[j][i] = held;
        }
    }
}

/* Transforms the first n_lines columns. */
static void down(line_transform *transform, size_t n_lines, size_t n, size_t side, grid *g)
{
    turn(g);
    across(transform, n_lines, n, side, g);
    turn(g);
}

/* ---- Factors --------------------------------------------------------------------------------- */

/* Of a convolution, a sample's tile. */
typedef struct tile_place {
    size_t sample, row, column;
} tile_place;

static grid data_of_tile(const dpt_conv2d_desc *d, const tiling *of, const float *x, tile_place p,
                         size_t channel)
{
    grid g = {{{0.0f}}};
    for (size_t i = 0; i < of->side; i++) {
        for (size_t j = 0; j < of->side; j++) {
            const size_t h = p.row * of->edge + i, w = p.column * of->edge + j;
            if (h < d->pad_h || h - d->pad_h >= d->in_h) continue;
            if (w < d->pad_w || w - d->pad_w >= d->in_w) continue;
            const size_t pixel = (p.sample * d->in_h + h - d->pad_h) * d->in_w + w - d->pad_w;
            g.at[i][j] = x[pixel * d->in_channels + channel];
        }
    }
    across(data, of->side, 0, of->side, &g);
    down(data, of->side, 0, of->side, &g);
    return g;
}

static grid gradient_of_tile(const dpt_conv2d_desc *d, const tiling *of, const float *dy,
                             tile_place p, size_t channel)
{
    grid g = {{{0.0f}}};
    for (size_t i = 0; i < of->edge; i++) {
        for (size_t j = 0; j < of->edge; j++) {
            const size_t h = p.row * of->edge + i, w = p.column * of->edge + j;
            if (h >= d->out_h || w >= d->out_w) continue;
            const size_t pixel = (p.sample * d->out_h + h) * d->out_w + w;
            g.at[i][j] = dy[pixel * d->out_channels + channel];
        }
    }
    across(evaluate, of->edge, of->edge, of->side, &g);
    down(evaluate, of->side, of->edge, of->side, &g);
    return g;
}

static grid filter_of(const dpt_conv2d_desc *d, const tiling *of, const float *w, size_t o,
                      size_t channel)
{
    grid g = {{{0.0f}}};
    for (size_t i = 0; i < of->taps; i++)
        for (size_t j = 0; j < of->taps; j++)
            g.at[i][j] = w[((o * of->taps + i) * of->taps + j) * d->in_channels + channel];
    down(evaluate, of->taps, of->taps, of->side, &g);
    for (size_t i = 0; i < of->side; i++)
        for (size_t j = 0; j < of->taps; j++)
            g.at[i][j] = weight(i, of->side) * g.at[i][j];
    across(evaluate, of->side, of->taps, of->side, &g);
    for (size_t i = 0; i < of->side; i++)
        for (size_t j = 0; j < of->side; j++)
            g.at[i][j] = weight(j, of->side) * g.at[i][j];
    return g;
}

/* One more term of the chains of all points. */
static void add_products(const tiling *of, const grid *a, const grid *b, grid *sums)
{
    for (size_t i = 0; i < of->side; i++)
        for (size_t j = 0; j < of->side; j++)
            sums->at[i][j] = fmaf(a->at[i][j], b->at[i][j], sums->at[i][j]);
}

/* ---- The operators --------------------------------------------------------------------------- */

static float forward_element(const dpt_conv2d_desc *d, const tiling *of,
                             const conformance_tensors *t, size_t i)
{
    const size_t o = i % d->out_channels, pixel = i / d->out_channels;
    const size_t h = pixel / d->out_w % d->out_h, w = pixel % d->out_w;
    const tile_place p = {pixel / d->out_w / d->out_h, h / of->edge, w / of->edge};
    grid sums = {{{0.0f}}};
    for (size_t c = 0; c < d->in_channels; c++) {
        const grid x = data_of_tile(d, of, t->in[0], p, c), u = filter_of(d, of, t->in[1], o, c);
        add_products(of, &x, &u, &sums);
    }
    down(interpolate, of->side, of->edge, of->side, &sums);
    across(interpolate, of->edge, of->edge, of->side, &sums);
    return sums.at[h % of->edge][w % of->edge] + 0.0f;
}

/* The values that a tile adds to the pixels of dx that it meets. */
static grid data_gradient(const dpt_conv2d_desc *d, const tiling *of, const conformance_tensors *t,
                          tile_place p, size_t c)
{
    grid sums = {{{0.0f}}};
    for (size_t o = 0; o < d->out_channels; o++) {
        const grid dy = gradient_of_tile(d, of, t->in[0], p, o),
                   u = filter_of(d, of, t->in[1], o, c);
        add_products(of, &dy, &u, &sums);
    }
    down(adjoint, of->side, 0, of->side, &sums);
    across(adjoint, of->side, 0, of->side, &sums);
    return sums;
}

static float data_element(const dpt_conv2d_desc *d, const tiling *of, const conformance_tensors *t,
                          size_t i)
{
    const size_t c = i % d->in_channels, pixel = i / d->in_channels;
    const size_t h = pixel / d->in_w % d->in_h + d->pad_h, w = pixel % d->in_w + d->pad_w;
    float sum = t->before ? t->before[i] : 0.0f;
    for (size_t row = 0; row * of->edge < d->out_h; row++) {
        for (size_t column = 0; column * of->edge < d->out_w; column++) {
            const size_t top = row * of->edge, left = column * of->edge;
            if (h < top || h - top >= of->side || w < left || w - left >= of->side) continue;
            const tile_place p = {pixel / d->in_w / d->in_h, row, column};
            const grid dx = data_gradient(d, of, t, p, c);
            sum += dx.at[h - top][w - left];
        }
    }
    return sum;
}

static float weights_element(const dpt_conv2d_desc *d, const tiling *of,
                             const conformance_tensors *t, size_t i)
{
    const size_t c = i % d->in_channels, tap = i / d->in_channels % (of->taps * of->taps);
    const size_t o = i / d->in_channels / (of->taps * of->taps);
    grid sums = {{{0.0f}}};
    for (size_t s = 0; s < t->n; s++) {
        for (size_t row = 0; row * of->edge < d->out_h; row++) {
            for (size_t column = 0; column * of->edge < d->out_w; column++) {
                const tile_place p = {s, row, column};
                const grid dy = gradient_of_tile(d, of, t->in[0], p, o),
                           x = data_of_tile(d, of, t->in[1], p, c);
                add_products(of, &dy, &x, &sums);
            }
        }
    }
    for (size_t a = 0; a < of->side; a++)
        for (size_t b = 0; b < of->side; b++)
            sums.at[a][b] = weight(a, of->side) * sums.at[a][b];
    down(interpolate, of->side, of->taps, of->side, &sums);
    for (size_t a = 0; a < of->taps; a++)
        for (size_t b = 0; b < of->side; b++)
            sums.at[a][b] = weight(b, of->side) * sums.at[a][b];
    across(interpolate, of->taps, of->taps, of->side, &sums);
    return sums.at[tap / of->taps][tap % of->taps] + 0.0f;
}

bool winograd_suits(const dpt_op_desc *desc)
{
    return dpt_op_family_of(desc->kind) == DPT_FAMILY_CONV2D &&
           dpt_winograd_edge(desc->kind, &desc->u.conv2d) > 0;
}

float winograd_element(const dpt_op_desc *desc, const conformance_tensors *t, size_t i)
{
    const dpt_conv2d_desc *d = &desc->u.conv2d;
    const size_t edge = dpt_winograd_edge(desc->kind, d);
    const tiling of = {edge, d->kernel_h, edge + d->kernel_h - 1};
    switch (desc->kind) {
    case DPT_OP_CONV2D_FORWARD: return forward_element(d, &of, t, i);
    case DPT_OP_CONV2D_BACKWARD_DATA: return data_element(d, &of, t, i);
    default: return weights_element(d, &of, t, i);
    }
}
