/* Which deterministic convolutions are Winograd convolutions.  The bits of a training depend on the
   rule, so known shapes are listed: those of LeNet, residual networks and VGG, and those at the
   rule's limits. */
#include "common/winograd_rule.h"
#include "harness.h"

typedef struct shape {
    size_t extent, in, out, taps, pad;
    size_t edge, edge_of_weights;
} shape;

static dpt_conv2d_desc conv_of(size_t h, size_t w, const shape *s)
{
    return (dpt_conv2d_desc){.in_h = h,
                             .in_w = w,
                             .in_channels = s->in,
                             .out_h = h + 2 * s->pad - s->taps + 1,
                             .out_w = w + 2 * s->pad - s->taps + 1,
                             .out_channels = s->out,
                             .kernel_h = s->taps,
                             .kernel_w = s->taps,
                             .stride_h = 1,
                             .stride_w = 1,
                             .pad_h = s->pad,
                             .pad_w = s->pad,
                             .dilation_h = 1,
                             .dilation_w = 1,
                             .groups = 1};
}

static void check_edge(test *t, dpt_op_kind kind, const dpt_conv2d_desc *d, size_t expected)
{
    const size_t edge = dpt_winograd_edge(kind, d);
    if (!CHECK(edge == expected))
        FAIL("%zux%zux%zu to %zu, kernel %zu, kind %d: %zu, expected %zu", d->out_h, d->out_w,
             d->in_channels, d->out_channels, d->kernel_h, (int)kind, edge, expected);
}

static void known_shapes(test *t)
{
    static const shape shapes[] = {
        {28, 1, 20, 3, 0, 0, 0},
        {13, 20, 50, 5, 0, 3, 3},
        {28, 64, 64, 3, 1, 4, 4},
        {14, 128, 128, 3, 1, 4, 4},
        {7, 256, 256, 3, 1, 4, 4},
        {4, 512, 512, 3, 1, 4, 4},
        {2, 512, 512, 3, 1, 2, 0},
        {1, 512, 512, 3, 1, 0, 0},
        {3, 64, 64, 3, 1, 4, 0},
        {6, 64, 64, 3, 1, 2, 2},
        {224, 64, 64, 3, 1, 4, 4},
        {1024, 256, 256, 3, 1, 0, 0},
        {4, 2048, 2048, 3, 1, 0, 0},
        {28, 15, 64, 3, 1, 0, 0},
        {28, 64, 15, 3, 1, 0, 0},
        {28, 64, 64, 1, 0, 0, 0},
        {28, 64, 64, 7, 3, 0, 0},
        {2, 64, 64, 5, 2, 3, 0},
        {((size_t)1 << 40), 16, 16, 3, 1, 0, 0},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const dpt_conv2d_desc d = conv_of(shapes[i].extent, shapes[i].extent, &shapes[i]);
        check_edge(t, DPT_OP_CONV2D_FORWARD, &d, shapes[i].edge);
        check_edge(t, DPT_OP_CONV2D_BACKWARD_DATA, &d, shapes[i].edge);
        check_edge(t, DPT_OP_CONV2D_BACKWARD_WEIGHTS, &d, shapes[i].edge_of_weights);
    }
}

/* Only filters with the same taps in both directions that neither skip pixels nor channels. */
static void other_convolutions(test *t)
{
    static const shape s = {28, 64, 64, 3, 1, 4, 4};
    dpt_conv2d_desc d = conv_of(28, 28, &s);
    d.stride_w = 2;
    check_edge(t, DPT_OP_CONV2D_FORWARD, &d, 0);
    d = conv_of(28, 28, &s);
    d.dilation_h = 2;
    check_edge(t, DPT_OP_CONV2D_FORWARD, &d, 0);
    d = conv_of(28, 28, &s);
    d.groups = 2;
    check_edge(t, DPT_OP_CONV2D_FORWARD, &d, 0);
    d = conv_of(28, 28, &s);
    d.kernel_w = 5;
    check_edge(t, DPT_OP_CONV2D_FORWARD, &d, 0);
    d = conv_of(1, 28, &s);
    check_edge(t, DPT_OP_CONV2D_FORWARD, &d, 0);
    d = conv_of(2, 28, &s);
    check_edge(t, DPT_OP_CONV2D_FORWARD, &d, 2);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {{"known shapes", known_shapes},
                                      {"other convolutions", other_convolutions}};
    return test_run((size_t)argc - 1, argv + 1, cases, sizeof cases / sizeof *cases, NULL);
}
