/* Shapes and places for MATMUL. */
#include "matmul_cases.h"

#include <stdio.h>

#define N_ELEMENTS(array) (sizeof(array) / sizeof *(array))

/* ---- Places ---------------------------------------------------------------------------------- */

/* How the matrices of an operand lie in its tensor. */
typedef enum layout {
    PLAIN,  /* one row behind the other */
    TURNED, /* one column behind the other */
    HEADS,  /* the matrices of batch axis 0 side by side: a row has a part of each */
    APART,  /* no two elements are neighbours */
    N_LAYOUTS
} layout;

enum { ROWS = DPT_MATMUL_AXES, COLUMNS, N_AXES };

/* The axes from the fastest one on. */
static const size_t orders[N_LAYOUTS][N_AXES] = {
    [PLAIN] = {COLUMNS, ROWS, 2, 1, 0},
    [TURNED] = {ROWS, COLUMNS, 2, 1, 0},
    [HEADS] = {COLUMNS, 0, ROWS, 2, 1},
    [APART] = {2, COLUMNS, ROWS, 1, 0},
};

/* Gives an operand a tensor with `margin` elements before and behind it.  extents: of all axes. */
static void place(dpt_matmul_operand *o, const size_t extents[N_AXES], layout how, size_t margin)
{
    size_t strides[N_AXES], stride = how == APART ? 2 : 1;
    for (size_t i = 0; i < N_AXES; i++) {
        strides[orders[how][i]] = stride;
        stride *= extents[orders[how][i]];
    }
    for (size_t i = 0; i < DPT_MATMUL_AXES; i++)
        o->batch_stride[i] = strides[i];
    o->row_stride = strides[ROWS];
    o->column_stride = strides[COLUMNS];
    o->offset = margin;
    o->elements = stride + 2 * margin;
    o->per_sample = true;
}

typedef struct layouts {
    layout a, b, y;
} layouts;

static void place_all(dpt_matmul_desc *d, layouts how, size_t margin)
{
    const size_t *batch = d->batch;
    place(&d->a, (size_t[N_AXES]){batch[0], batch[1], batch[2], d->rows, d->inner}, how.a, margin);
    place(&d->b, (size_t[N_AXES]){batch[0], batch[1], batch[2], d->inner, d->columns}, how.b,
          margin);
    place(&d->y, (size_t[N_AXES]){batch[0], batch[1], batch[2], d->rows, d->columns}, how.y,
          margin);
}

/* ---- Descriptions ---------------------------------------------------------------------------- */

static const float factors[] = {1.0f, 0.125f, -2.0f, 0.3f};

static dpt_op_desc product_of(const size_t shape[6])
{
    return (dpt_op_desc){.kind = DPT_OP_MATMUL,
                         .u.matmul = {.batch = {shape[0], shape[1], shape[2]},
                                      .rows = shape[3],
                                      .columns = shape[4],
                                      .inner = shape[5],
                                      .alpha = 1.0f}};
}

/* Every place of every operand. */
static void check_layouts(test *t)
{
    static const size_t shape[] = {3, 1, 2, 17, 9, 21};
    for (size_t i = 0; i < 4 * N_LAYOUTS * N_LAYOUTS && !conformance_enough(t); i++) {
        dpt_op_desc desc = product_of(shape);
        const size_t y = i / (N_LAYOUTS * N_LAYOUTS);
        place_all(
            &desc.u.matmul,
            (layouts){(layout)(i % N_LAYOUTS), (layout)(i / N_LAYOUTS % N_LAYOUTS), (layout)y},
            i % 3);
        desc.u.matmul.alpha = factors[(i + y) % N_ELEMENTS(factors)];
        conformance_vary(t, &desc, i);
    }
}

/* The products of attention and of their gradients, for a few heads within rows: scores = q k^T,
   output = scores v, and with a score's gradient dk = scores^T q. */
static void check_attention(test *t)
{
    static const size_t sizes[][3] = {{3, 17, 8}, {2, 65, 33}, {12, 49, 32}, {1, 130, 64}};
    for (size_t i = 0; i < N_ELEMENTS(sizes) && !conformance_enough(t); i++) {
        const size_t n_heads = sizes[i][0], length = sizes[i][1], width = sizes[i][2];
        dpt_op_desc scores = product_of((size_t[]){n_heads, 1, 1, length, length, width});
        dpt_op_desc output = product_of((size_t[]){n_heads, 1, 1, length, width, length});
        place_all(&scores.u.matmul, (layouts){HEADS, HEADS, PLAIN}, 0);
        place(&scores.u.matmul.b, (size_t[]){n_heads, 1, 1, length, width}, HEADS, 0);
        const size_t row = scores.u.matmul.b.row_stride; /* k^T */
        scores.u.matmul.b.row_stride = scores.u.matmul.b.column_stride;
        scores.u.matmul.b.column_stride = row;
        scores.u.matmul.alpha = 0.125f;
        conformance_vary(t, &scores, i);
        place_all(&output.u.matmul, (layouts){PLAIN, HEADS, HEADS}, 0);
        conformance_vary(t, &output, i);
        place_all(&output.u.matmul, (layouts){TURNED, HEADS, HEADS}, 0);
        conformance_vary(t, &output, i);
    }
}

/* Sizes around the tiles and vectors of kernels, with long and short sums, and batches. */
static void check_shapes(test *t)
{
    static const size_t shapes[][6] = {
        {1, 1, 1, 1, 1, 1},     {1, 1, 1, 3, 17, 5},    {2, 1, 1, 17, 33, 65},
        {1, 1, 1, 65, 64, 33},  {3, 1, 1, 33, 1, 17},   {2, 1, 1, 1, 65, 3},
        {4, 1, 1, 17, 3, 1},    {2, 3, 4, 5, 7, 9},     {1, 1, 1, 64, 64, 64},
        {1, 1, 1, 130, 70, 20}, {1, 2, 1, 20, 140, 65}, {1, 1, 1, 3, 2, 1100},
        {1, 1, 5, 32, 32, 16},  {1, 1, 1, 1, 1, 33},    {1, 1, 1, 300, 2, 1},
    };
    for (size_t i = 0; i < 4 * N_ELEMENTS(shapes) && !conformance_enough(t); i++) {
        static const layouts how[] = {{PLAIN, PLAIN, PLAIN},
                                      {PLAIN, TURNED, PLAIN},
                                      {TURNED, PLAIN, PLAIN},
                                      {APART, APART, APART}};
        dpt_op_desc desc = product_of(shapes[i / 4]);
        place_all(&desc.u.matmul, how[i % 4], 0);
        desc.u.matmul.alpha = factors[i % 3];
        conformance_vary(t, &desc, i);
    }
}

/* Products so large that they are divided, with and without a stride of 1. */
static void check_large(test *t)
{
    static const size_t shapes[][6] = {{1, 1, 1, 530, 150, 130}, {1, 1, 1, 40, 600, 560}};
    for (size_t i = 0; i < 2 * N_ELEMENTS(shapes) && !conformance_enough(t); i++) {
        static const layouts how[] = {{TURNED, PLAIN, PLAIN}, {APART, APART, APART}};
        dpt_op_desc desc = product_of(shapes[i / 2]);
        place_all(&desc.u.matmul, how[i % 2], 0);
        conformance_vary(t, &desc, i);
    }
}

/* Broadcasts an input along some axes of the batch, sometimes along one of its matrix. */
static void broadcast(dpt_matmul_operand *o, test_random *random)
{
    for (size_t i = 0; i < DPT_MATMUL_AXES; i++)
        if (test_random_below(random, 3) == 0) o->batch_stride[i] = 0;
    if (test_random_below(random, 8) == 0) o->row_stride = 0;
    if (test_random_below(random, 8) == 0) o->column_stride = 0;
}

static size_t any_extent(test_random *random)
{
    static const size_t extents[] = {1, 2, 3, 4, 7, 8, 16, 17, 31, 33, 64, 65};
    return extents[test_random_below(random, N_ELEMENTS(extents))];
}

/* One after the other, so that every compiler draws the same ones. */
static layouts any_layouts(test_random *random)
{
    const layout a = (layout)test_random_below(random, N_LAYOUTS);
    const layout b = (layout)test_random_below(random, N_LAYOUTS);
    const layout y = (layout)test_random_below(random, N_LAYOUTS);
    return (layouts){a, b, y};
}

static void check_random(test *t)
{
    enum { N_RANDOM = 80 };
    test_random random = {DPT_OP_MATMUL};
    for (size_t i = 0; i < N_RANDOM && !conformance_enough(t); i++) {
        size_t shape[6];
        for (size_t axis = 0; axis < 6; axis++)
            shape[axis] =
                axis < DPT_MATMUL_AXES ? 1 + test_random_below(&random, 3) : any_extent(&random);
        dpt_op_desc desc = product_of(shape);
        dpt_matmul_desc *d = &desc.u.matmul;
        const layouts places = any_layouts(&random);
        place_all(d, places, test_random_below(&random, 3));
        broadcast(&d->a, &random);
        broadcast(&d->b, &random);
        d->a.per_sample = test_random_below(&random, 4) != 0;
        d->b.per_sample = test_random_below(&random, 3) != 0;
        d->alpha = factors[test_random_below(&random, N_ELEMENTS(factors))];
        conformance_vary(t, &desc, test_random_u64(&random));
    }
}

void matmul_cases_check(test *t, dpt_op_kind kind)
{
    (void)kind;
    check_layouts(t);
    check_attention(t);
    check_shapes(t);
    check_large(t);
    check_random(t);
    dpt_op_desc desc = product_of((size_t[]){2, 1, 1, 17, 9, 21});
    place_all(&desc.u.matmul, (layouts){PLAIN, PLAIN, PLAIN}, 0);
    if (!conformance_enough(t)) conformance_nan(t, &desc);
}

size_t matmul_cases_work(const dpt_matmul_desc *d)
{
    return d->batch[0] * d->batch[1] * d->batch[2] * d->rows * d->columns * d->inner;
}

/* ---- In words -------------------------------------------------------------------------------- */

static int describe_operand(const dpt_matmul_operand *o, const char *name, char *out, size_t n)
{
    return snprintf(out, n, " %s %s%zu+%zu(%zu,%zu,%zu;%zu,%zu)", name, o->per_sample ? "n*" : "",
                    o->elements, o->offset, o->batch_stride[0], o->batch_stride[1],
                    o->batch_stride[2], o->row_stride, o->column_stride);
}

void matmul_cases_describe(const dpt_matmul_desc *d, char *out, size_t n_bytes)
{
    const dpt_matmul_operand *const operands[] = {&d->a, &d->b, &d->y};
    static const char *const names[] = {"a", "b", "y"};
    int n = snprintf(out, n_bytes, "%zux%zux%zu of %zux%zux%zu alpha %g", d->batch[0], d->batch[1],
                     d->batch[2], d->rows, d->columns, d->inner, (double)d->alpha);
    for (size_t i = 0; i < N_ELEMENTS(operands) && n >= 0 && (size_t)n < n_bytes; i++) {
        const int more = describe_operand(operands[i], names[i], out + n, n_bytes - (size_t)n);
        n = more < 0 ? more : n + more;
    }
}
