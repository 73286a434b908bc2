/* Tests descriptions of operators: the tensors that they take, and invalid descriptions. */
#include "device/signature.h"
#include "harness.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

/* The slots as text: "in x 12, w =36 -> y 8"; a number alone is per sample, = is in all. */
static void write_slots(const dpti_slot *slots, size_t n, char *text, size_t size)
{
    static const char *const types[] = {"", " u8", " i32", " u32", " bf16"};
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        const size_t length = strlen(text);
        snprintf(text + length, size - length, "%s%s%s %s%zu", i ? ", " : "", slots[i].name,
                 types[slots[i].dtype], slots[i].per_sample ? "" : "=",
                 slots[i].per_sample ? slots[i].per_sample : slots[i].fixed);
    }
}

static void takes(test *t, const dpt_op_desc *desc, const char *in, const char *out)
{
    dpti_signature signature;
    dpt_error error = {.status = DPT_OK};
    char text[200];
    if (!CHECK_OK(dpti_op_signature(desc, &signature, &error))) {
        FAIL("%s", error.message);
        return;
    }
    write_slots(signature.in, signature.n_in, text, sizeof text);
    CHECK_TEXT(text, in);
    write_slots(signature.out, signature.n_out, text, sizeof text);
    CHECK_TEXT(text, out);
}

static void refuses(test *t, const dpt_op_desc *desc, const char *part)
{
    dpti_signature signature = {.n_in = 77};
    dpt_error error = {.status = DPT_OK};
    CHECK_STATUS(dpti_op_signature(desc, &signature, &error), DPT_E_INVALID);
    CHECK_CONTAINS(error.message, part);
    CHECK_CONTAINS(error.message, dpti_op_name(desc->kind));
    CHECK_SIZE(signature.n_in, 77);
}

/* in 7x5x4, out 3x3x6: kernel 3x2, stride 2, padding 0x1 (height 7-2-1 = 4 / 2 + 1 = 3; width
   5+2-1-1 = 5 / 2 + 1 = 3), 2 groups. */
static dpt_op_desc conv(dpt_op_kind kind)
{
    return (dpt_op_desc){.kind = kind,
                         .u.conv2d = {.in_h = 7,
                                      .in_w = 5,
                                      .in_channels = 4,
                                      .out_h = 3,
                                      .out_w = 3,
                                      .out_channels = 6,
                                      .kernel_h = 3,
                                      .kernel_w = 2,
                                      .stride_h = 2,
                                      .stride_w = 2,
                                      .pad_w = 1,
                                      .dilation_h = 1,
                                      .dilation_w = 1,
                                      .groups = 2}};
}

/* y = a + b over 3x4, b broadcast along the first axis. */
static dpt_op_desc sum_of_two(void)
{
    return (dpt_op_desc){.kind = DPT_OP_MAP,
                         .u.map = {.rank = 2,
                                   .extent = {3, 4},
                                   .n_in = 2,
                                   .n_out = 1,
                                   .n_code = 3,
                                   .value = {2},
                                   .in = {{.sampled = true, .size = 12, .stride = {4, 1}},
                                          {.size = 4, .stride = {0, 1}}},
                                   .out = {{.sampled = true, .size = 12, .stride = {4, 1}}},
                                   .code = {{.code = DPT_MAP_LOAD},
                                            {.code = DPT_MAP_LOAD, .index = 1},
                                            {.code = DPT_MAP_ADD, .a = 0, .b = 1}}}};
}

static void maps(test *t)
{
    dpt_op_desc d = sum_of_two();
    takes(t, &d, "a 12, b =4", "y 12");
    d.u.map.in[1].type = DPT_U8;
    takes(t, &d, "a 12, b u8 =4", "y 12");
    d = sum_of_two();
    d.kind = DPT_OP_MAP_REDUCE;
    d.u.map.out[0] = (dpt_map_operand){.size = 4, .stride = {0, 1}};
    takes(t, &d, "a 12, b =4", "y =4");
    d.u.map.reduction = DPT_REDUCE_MAXIMUM;
    refuses(t, &d, "only a sum combines samples");
    d.u.map.reduction = 9;
    refuses(t, &d, "no reduction 9");
}

static void senseless_maps(test *t)
{
    dpt_op_desc d = sum_of_two();
    d.u.map.code[2].b = 2;
    refuses(t, &d, "instruction 2 reads the value 2, which is computed later");
    d = sum_of_two();
    d.u.map.code[1].index = 2;
    refuses(t, &d, "instruction 1 reads input 2 of 2");
    d = sum_of_two();
    d.u.map.code[2].code = DPT_MAP_COUNT;
    refuses(t, &d, "unknown code");
    d = sum_of_two();
    d.u.map.value[0] = 3;
    refuses(t, &d, "the value 3 of 3");
    d = sum_of_two();
    d.u.map.rank = DPT_MAX_RANK + 1;
    refuses(t, &d, "9 axes, of at most 8");
    d = sum_of_two();
    d.u.map.extent[1] = 0;
    refuses(t, &d, "axis 1 is empty");
    d.u.map.extent[1] = (size_t)1 << 31;
    refuses(t, &d, "2^31");
    d = sum_of_two();
    d.u.map.in[0].size = 11;
    refuses(t, &d, "indices lie outside the 11 elements of an input");
    d = sum_of_two();
    d.u.map.in[0].stride[1] = -1;
    refuses(t, &d, "indices lie outside");
    d = sum_of_two();
    d.u.map.in[0].stride[0] = INT32_MAX;
    refuses(t, &d, "along axis 0, indices lie outside an input");
    d = sum_of_two();
    d.u.map.out[0].stride[0] = 3;
    refuses(t, &d, "two indices may write the same element");
    d = sum_of_two();
    d.u.map.out[0].sampled = false;
    refuses(t, &d, "only a sum combines samples");
    d = sum_of_two();
    d.u.map.in[1].type = DPT_U32;
    refuses(t, &d, "an input has element type 3");
    d = sum_of_two();
    d.u.map.n_out = 0;
    refuses(t, &d, "0 outputs");
}

/* Heads of 5 elements within rows: a (T=4, H=3, 5), b the same transposed, y (3, 4, 4). */
static dpt_op_desc heads(void)
{
    return (dpt_op_desc){.kind = DPT_OP_MATMUL,
                         .u.matmul = {.batch = {3, 1, 1},
                                      .rows = 4,
                                      .columns = 4,
                                      .inner = 5,
                                      .alpha = 0.5f,
                                      .a = {.elements = 60,
                                            .batch_stride = {5},
                                            .row_stride = 15,
                                            .column_stride = 1,
                                            .per_sample = true},
                                      .b = {.elements = 60,
                                            .batch_stride = {5},
                                            .row_stride = 1,
                                            .column_stride = 15,
                                            .per_sample = true},
                                      .y = {.elements = 50,
                                            .offset = 2,
                                            .batch_stride = {16},
                                            .row_stride = 4,
                                            .column_stride = 1,
                                            .per_sample = true}}};
}

static void products(test *t)
{
    dpt_op_desc d = heads();
    takes(t, &d, "a 60, b 60", "y 50");
    d.u.matmul.b.per_sample = false;
    takes(t, &d, "a 60, b =60", "y 50");
    d.type = DPT_BF16;
    takes(t, &d, "a bf16 60, b =60", "y bf16 50");
    d.u.matmul.b.batch_stride[0] = 0;
    d.u.matmul.b.elements = 50;
    takes(t, &d, "a bf16 60, b =50", "y bf16 50");
    d = heads(); /* what has one index has no stride */
    d.u.matmul.a.batch_stride[1] = d.u.matmul.y.batch_stride[2] = SIZE_MAX;
    takes(t, &d, "a 60, b 60", "y 50");
}

static void senseless_products(test *t)
{
    dpt_op_desc d = heads();
    d.u.matmul.batch[1] = 0;
    refuses(t, &d, "an extent of 0");
    d = heads();
    d.u.matmul.inner = (size_t)1 << 31;
    refuses(t, &d, "an extent of 2147483648");
    d = heads();
    d.u.matmul.alpha = NAN;
    refuses(t, &d, "alpha of nan is not finite");
    d = heads();
    d.u.matmul.b.offset = 60;
    refuses(t, &d, "b begins at element 60 of 60");
    d = heads();
    d.u.matmul.a.elements = (size_t)1 << 31;
    refuses(t, &d, "a begins at element 0 of 2147483648");
    d = heads();
    d.u.matmul.a.elements = 59;
    refuses(t, &d, "along the columns, indices lie outside the 59 elements of a");
    d = heads();
    d.u.matmul.b.batch_stride[0] = SIZE_MAX;
    refuses(t, &d, "b has the stride 18446744073709551615 along batch axis 0");
    d = heads();
    d.u.matmul.y.offset = 3;
    refuses(t, &d, "indices lie outside the 50 elements of y");
    d = heads();
    d.u.matmul.y.batch_stride[0] = 15;
    refuses(t, &d, "two indices may write the same element of y");
    d = heads();
    d.u.matmul.y.row_stride = 0;
    refuses(t, &d, "two indices may write the same element of y");
    d = heads();
    d.u.matmul.y.per_sample = false;
    refuses(t, &d, "y is not per sample");
}

static void convolutions(test *t)
{
    dpt_op_desc d = conv(DPT_OP_CONV2D_FORWARD);
    takes(t, &d, "x 140, w =72", "y 54");
    d.u.conv2d.has_bias = true;
    takes(t, &d, "x 140, w =72, bias =6", "y 54");
    d.kind = DPT_OP_CONV2D_BACKWARD_DATA;
    takes(t, &d, "dy 54, w =72", "dx 140");
    d.u.conv2d.input_activation = DPT_ACT_RELU;
    takes(t, &d, "dy 54, w =72, x 140", "dx 140");
    d.kind = DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    takes(t, &d, "dy 54, x 140", "dw =72, dbias =6");
    d.u.conv2d.has_bias = false;
    takes(t, &d, "dy 54, x 140", "dw =72");
}

/* Activations and their gradients alone; what sums up, what is summed up and targets are float32.
 */
static void half_as_large(test *t)
{
    dpt_op_desc d = conv(DPT_OP_CONV2D_BACKWARD_DATA);
    d.type = DPT_BF16;
    d.u.conv2d.has_bias = true;
    d.u.conv2d.input_activation = DPT_ACT_RELU;
    takes(t, &d, "dy bf16 54, w =72, x bf16 140", "dx bf16 140");
    d.kind = DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    takes(t, &d, "dy bf16 54, x bf16 140", "dw =72, dbias =6");
    d = (dpt_op_desc){
        .kind = DPT_OP_SQUARED_ERROR_GRADIENT, .type = DPT_BF16, .u.squared_error.count = 5};
    takes(t, &d, "y bf16 5, target 5", "result 2, dy bf16 5");
    d = (dpt_op_desc){.kind = DPT_OP_LAYER_NORM_FORWARD,
                      .type = DPT_BF16,
                      .u.layer_norm = {.rows = 3, .channels = 2, .epsilon = 1e-5f}};
    takes(t, &d, "x bf16 6, w =2, b =2", "y bf16 6, moments 6");
    d.type = DPT_U8;
    refuses(t, &d, "element type 1");
}

static void bad_convolutions(test *t)
{
    dpt_op_desc d = conv(DPT_OP_CONV2D_FORWARD);
    d.u.conv2d.out_w = 4;
    refuses(t, &d, "width: the output is 3, not 4");
    d = conv(DPT_OP_CONV2D_FORWARD);
    d.u.conv2d.in_h = 0;
    refuses(t, &d, "zero");
    d = conv(DPT_OP_CONV2D_FORWARD);
    d.u.conv2d.kernel_h = 8;
    refuses(t, &d, "does not fit");
    d = conv(DPT_OP_CONV2D_FORWARD);
    d.u.conv2d.dilation_h = 4; /* reaches over 9 */
    refuses(t, &d, "over 9 does not fit the padded input of 7");
    d = conv(DPT_OP_CONV2D_FORWARD);
    d.u.conv2d.stride_w = 0;
    refuses(t, &d, "at least 1");
    d = conv(DPT_OP_CONV2D_FORWARD);
    d.u.conv2d.groups = 3;
    refuses(t, &d, "3 groups");
    d = conv(DPT_OP_CONV2D_FORWARD);
    d.u.conv2d.groups = 0;
    refuses(t, &d, "0 groups");
    d = conv(DPT_OP_CONV2D_FORWARD);
    d.u.conv2d.pad_h = SIZE_MAX / 2 + 1;
    refuses(t, &d, "too large");
    d = conv(DPT_OP_CONV2D_FORWARD);
    d.u.conv2d.dilation_h = SIZE_MAX;
    refuses(t, &d, "too large");
    d = conv(DPT_OP_CONV2D_FORWARD);
    d.u.conv2d.in_channels = SIZE_MAX / 16;
    refuses(t, &d, "larger than any memory");
    d = conv(DPT_OP_CONV2D_FORWARD);
    d.u.conv2d.activation = (dpt_activation)99;
    refuses(t, &d, "activation 99");
    d.u.conv2d.activation = DPT_ACT_GELU; /* its derivative needs more than the output */
    refuses(t, &d, "GELU");
    d = conv(DPT_OP_CONV2D_BACKWARD_DATA);
    d.u.conv2d.input_activation = (dpt_activation)98;
    refuses(t, &d, "activation 98");
}

static void linears(test *t)
{
    dpt_op_desc d = {.kind = DPT_OP_LINEAR_FORWARD, .u.linear = {.in = 3, .out = 5}};
    takes(t, &d, "x 3, w =15", "y 5");
    d.u.linear.has_bias = true;
    takes(t, &d, "x 3, w =15, bias =5", "y 5");
    d.kind = DPT_OP_LINEAR_BACKWARD_DATA;
    takes(t, &d, "dy 5, w =15", "dx 3");
    d.u.linear.input_activation = DPT_ACT_TANH;
    takes(t, &d, "dy 5, w =15, x 3", "dx 3");
    d.kind = DPT_OP_LINEAR_BACKWARD_WEIGHTS;
    takes(t, &d, "dy 5, x 3", "dw =15, dbias =5");
    d.u.linear.rows = 2;
    takes(t, &d, "dy 5, x 3", "dw =6, dbias =2");
    d.u.linear.first = 3;
    takes(t, &d, "dy 5, x 3", "dw =6, dbias =2");
    d.u.linear.first = 4;
    refuses(t, &d, "2 rows from row 4 on are no slice of 5");
    d.u.linear.first = SIZE_MAX;
    refuses(t, &d, "no slice of 5");
    d.u.linear.first = 0;
    d.u.linear.rows = 6;
    refuses(t, &d, "6 rows from row 0 on are no slice of 5");
    d.u.linear.rows = 0;
    d.u.linear.first = 1;
    refuses(t, &d, "0 rows from row 1 on");
    d.kind = DPT_OP_LINEAR_FORWARD;
    d.u.linear.first = 0;
    d.u.linear.rows = 5;
    refuses(t, &d, "not a gradient of weights");
    d.u.linear.rows = 0;
    d.kind = DPT_OP_LINEAR_BACKWARD_WEIGHTS;
    d.u.linear.in = 0;
    refuses(t, &d, "zero");
    d.u.linear.in = SIZE_MAX / 5;
    refuses(t, &d, "larger than any memory");
}

static void pools(test *t)
{
    dpt_op_desc d = {.kind = DPT_OP_POOL2D_FORWARD,
                     .u.pool2d = {.kind = DPT_POOL_AVERAGE,
                                  .in_h = 5,
                                  .in_w = 4,
                                  .channels = 2,
                                  .out_h = 3,
                                  .out_w = 2,
                                  .kernel_h = 3,
                                  .kernel_w = 2,
                                  .stride_h = 2,
                                  .stride_w = 2,
                                  .pad_h = 1}};
    takes(t, &d, "x 40", "y 12");
    d.kind = DPT_OP_POOL2D_BACKWARD;
    takes(t, &d, "dy 12, x 40", "dx 40");
    d.u.pool2d.input_activation = DPT_ACT_RELU;
    takes(t, &d, "dy 12, x 40", "dx 40");
    d.u.pool2d.pad_w = 2;
    d.u.pool2d.out_w = 4;
    refuses(t, &d, "not less than the kernel");
    d.u.pool2d.kind = (dpt_pool_kind)2;
    refuses(t, &d, "pooling 2");
}

static void gathers(test *t)
{
    dpt_op_desc d = {.kind = DPT_OP_GATHER,
                     .u.gather = {.dtype = DPT_U8, .count = 12, .n_records = 100, .channels = 3}};
    takes(t, &d, "data u8 =1200, index u32 1", "x 12");
    d.u.gather.dtype = DPT_F32;
    takes(t, &d, "data =1200, index u32 1", "x 12");
    d.u.gather.channels = 5;
    refuses(t, &d, "5 channels");
    d.u.gather.count = 11;
    d.u.gather.channels = 2;
    refuses(t, &d, "2 channels");
    d.u.gather.channels = 0;
    refuses(t, &d, "0 channels");
    d.u.gather.channels = 1;
    d.u.gather.mean[0] = NAN;
    refuses(t, &d, "channel 0 is not finite");
    d.u.gather.mean[0] = 0;
    d.u.gather.dtype = DPT_I32;
    refuses(t, &d, "element type 2");
    d.u.gather.dtype = DPT_U8;
    d.u.gather.n_records = (size_t)UINT32_MAX + 1;
    refuses(t, &d, "32 bits");
    d = (dpt_op_desc){.kind = DPT_OP_GATHER_LABELS,
                      .u.gather = {.dtype = DPT_U8, .count = 1, .n_records = 100}};
    takes(t, &d, "labels u8 =100, index u32 1", "label i32 1");
    d.u.gather.dtype = DPT_F32;
    refuses(t, &d, "element type 0");
    d.u.gather.dtype = DPT_I32;
    d.u.gather.count = 2;
    takes(t, &d, "labels i32 =200, index u32 1", "label i32 2");
}

static dpt_op_desc batch_norm(dpt_op_kind kind)
{
    return (dpt_op_desc){
        .kind = kind, .u.batch_norm = {.area = 6, .channels = 5, .n_parts = 3, .epsilon = 1e-5f}};
}

static void batch_norms(test *t)
{
    dpt_op_desc d = batch_norm(DPT_OP_BATCH_NORM_PARTIAL);
    takes(t, &d, "x 30", "part =15");
    d.kind = DPT_OP_BATCH_NORM_MERGE;
    takes(t, &d, "parts =45", "moments =15, mean =5, variance =5");
    d.kind = DPT_OP_BATCH_NORM_FREEZE;
    takes(t, &d, "mean =5, variance =5", "moments =15");
    d.kind = DPT_OP_BATCH_NORM_FORWARD;
    takes(t, &d, "x 30, moments =15, w =5, b =5", "y 30");
    d.u.batch_norm.has_residual = true;
    takes(t, &d, "x 30, moments =15, w =5, b =5, residual 30", "y 30");
    d.kind = DPT_OP_BATCH_NORM_BACKWARD_PARTIAL;
    takes(t, &d, "dy 30, x 30, moments =15", "part =10, dw =5, db =5");
    d.kind = DPT_OP_BATCH_NORM_BACKWARD_DATA;
    d.u.batch_norm.input_activation = DPT_ACT_RELU; /* x is there already */
    takes(t, &d, "dy 30, x 30, moments =15, w =5, parts =30", "dx 30");
}

static void bad_batch_norms(test *t)
{
    dpt_op_desc d = batch_norm(DPT_OP_BATCH_NORM_FORWARD);
    d.u.batch_norm.channels = 0;
    refuses(t, &d, "zero");
    d = batch_norm(DPT_OP_BATCH_NORM_MERGE);
    d.u.batch_norm.n_parts = 0;
    refuses(t, &d, "zero");
    d.u.batch_norm.n_parts = SIZE_MAX / 4;
    refuses(t, &d, "larger than any memory");
    d = batch_norm(DPT_OP_BATCH_NORM_FREEZE);
    d.u.batch_norm.epsilon = 0.0f;
    refuses(t, &d, "epsilon");
    d.u.batch_norm.epsilon = NAN;
    refuses(t, &d, "epsilon");
    d = batch_norm(DPT_OP_BATCH_NORM_FORWARD);
    d.u.batch_norm.activation = DPT_ACT_GELU;
    refuses(t, &d, "GELU");
    d = batch_norm(DPT_OP_BATCH_NORM_BACKWARD_DATA);
    d.u.batch_norm.input_activation = (dpt_activation)98;
    refuses(t, &d, "activation 98");
}

static void layer_norms(test *t)
{
    dpt_op_desc d = {.kind = DPT_OP_LAYER_NORM_FORWARD,
                     .u.layer_norm = {.rows = 4, .channels = 7, .epsilon = 1e-5f}};
    takes(t, &d, "x 28, w =7, b =7", "y 28, moments 8");
    d.kind = DPT_OP_LAYER_NORM_BACKWARD_DATA;
    takes(t, &d, "dy 28, x 28, moments 8, w =7", "dx 28");
    d.kind = DPT_OP_LAYER_NORM_BACKWARD_WEIGHTS;
    takes(t, &d, "dy 28, x 28, moments 8", "dw =7, db =7");
    d.u.layer_norm.input_activation = DPT_ACT_GELU;
    refuses(t, &d, "GELU");
    d.u.layer_norm.input_activation = DPT_ACT_NONE;
    d.u.layer_norm.rows = 0;
    refuses(t, &d, "zero");
    d.u.layer_norm.rows = 4;
    d.u.layer_norm.epsilon = -1e-5f;
    refuses(t, &d, "epsilon");
}

static void rows(test *t)
{
    dpt_op_desc d = {.kind = DPT_OP_ROW_SOFTMAX_FORWARD,
                     .u.row_softmax = {.rows = 4, .columns = 7}};
    takes(t, &d, "x 28", "y 28");
    d.kind = DPT_OP_ROW_SOFTMAX_BACKWARD;
    takes(t, &d, "dy 28, y 28", "dx 28");
    d.u.row_softmax.columns = 0;
    refuses(t, &d, "zero");
    d = (dpt_op_desc){.kind = DPT_OP_TAKE_FORWARD, .u.take = {.count = 3, .width = 5, .rows = 11}};
    takes(t, &d, "table =55, index i32 3", "y 15");
    d.kind = DPT_OP_TAKE_BACKWARD;
    takes(t, &d, "dy 15, index i32 3", "dtable =55");
    d.u.take.rows = (size_t)INT32_MAX + 1;
    refuses(t, &d, "31 bits");
    d.u.take.rows = 0;
    refuses(t, &d, "zero");
}

static void attention(test *t)
{
    dpt_op_desc d = {.kind = DPT_OP_ATTENTION_FORWARD,
                     .u.attention = {.heads = 4,
                                     .key_heads = 2,
                                     .width = 8,
                                     .queries = 3,
                                     .keys = 5,
                                     .causal = true,
                                     .scale = 0.5f}};
    takes(t, &d, "q 96, k 80, v 80", "y 96, lse 12");
    d.u.attention.no_gradient = true;
    takes(t, &d, "q 96, k 80, v 80", "y 96");
    d.kind = DPT_OP_ATTENTION_BACKWARD;
    refuses(t, &d, "not wanted");
    d.u.attention.no_gradient = false;
    takes(t, &d, "dy 96, y 96, lse 12, q 96, k 80, v 80", "dq 96, dk 80, dv 80");
    d.u.attention.packed = true;
    refuses(t, &d, "one tensor");
    d.u.attention.queries = 5;
    takes(t, &d, "dy 160, y 160, lse 20, x 320", "dx 320");
    d.u.attention.scale = NAN;
    refuses(t, &d, "scale");
    d.u.attention.scale = 1.0f;
    d.u.attention.key_heads = 3;
    refuses(t, &d, "divide");
    d.u.attention.key_heads = 0;
    refuses(t, &d, "zero");
    d.u.attention.key_heads = 4;
    d.u.attention.packed = false;
    d.u.attention.keys = 4;
    refuses(t, &d, "in order");
}

static dpt_op_desc recurrent(dpt_recurrent_cell cell)
{
    dpt_op_desc d = {
        .kind = DPT_OP_RECURRENT_FORWARD,
        .u.recurrent = {.cell = cell, .length = 5, .hidden = 3, .activation = {DPT_ACT_SIGMOID}}};
    for (size_t i = 0; i < dpt_recurrent_gates(cell); i++)
        d.u.recurrent.place[i] = (uint8_t)i;
    if (cell != DPT_CELL_RNN) d.u.recurrent.activation[1] = DPT_ACT_TANH;
    if (cell == DPT_CELL_LSTM) d.u.recurrent.activation[2] = DPT_ACT_TANH;
    return d;
}

static void recurrent_layers(test *t)
{
    dpt_op_desc d = recurrent(DPT_CELL_RNN);
    takes(t, &d, "x 15, w =9", "y 15");
    d.kind = DPT_OP_RECURRENT_BACKWARD;
    takes(t, &d, "dy 15, y 15, w =9", "dx 15");
    d = recurrent(DPT_CELL_LSTM);
    d.u.recurrent.has_initial = d.u.recurrent.gives_cell = true;
    takes(t, &d, "x 60, w =36, h0 3, c0 3", "y 18, gates 60, cells 15");
    d.u.recurrent.no_gradient = true;
    takes(t, &d, "x 60, w =36, h0 3, c0 3", "y 18");
    d.u.recurrent.no_gradient = false;
    d.kind = DPT_OP_RECURRENT_BACKWARD;
    takes(t, &d, "dy 18, gates 60, cells 15, w =36, c0 3", "dx 60, dh0 3, dc0 3");
    d = recurrent(DPT_CELL_GRU);
    d.u.recurrent.has_bias = d.u.recurrent.has_initial = true;
    takes(t, &d, "x 45, w =27, bias =9, h0 3", "y 15, gates 60");
    d.kind = DPT_OP_RECURRENT_BACKWARD;
    d.type = DPT_BF16;
    takes(t, &d, "dy bf16 15, y bf16 15, gates bf16 60, w =27, h0 bf16 3",
          "dx bf16 45, dq bf16 45, dh0 bf16 3");
    d = recurrent(DPT_CELL_GRU_BEFORE);
    takes(t, &d, "x 45, w =18, w_new =9", "y 15, gates 45");
    d.kind = DPT_OP_RECURRENT_BACKWARD;
    takes(t, &d, "dy 15, y 15, gates 45, w =18, w_new =9", "dx 45");
}

static void senseless_recurrent_layers(test *t)
{
    dpt_op_desc d = recurrent(DPT_CELL_LSTM);
    d.u.recurrent.place[3] = 2;
    refuses(t, &d, "no permutation of 0 to 3");
    d = recurrent(DPT_CELL_GRU);
    d.u.recurrent.place[3] = 1;
    refuses(t, &d, "no permutation of 0 to 2");
    d = recurrent(DPT_CELL_GRU_BEFORE);
    d.u.recurrent.place[1] = 2;
    d.u.recurrent.place[2] = 1;
    refuses(t, &d, "its candidate is block 1");
    d = recurrent(DPT_CELL_LSTM);
    d.u.recurrent.activation[2] = DPT_ACT_GELU;
    refuses(t, &d, "activation 2");
    d = recurrent(DPT_CELL_RNN);
    d.u.recurrent.activation[1] = DPT_ACT_TANH;
    refuses(t, &d, "activation 1");
    d = recurrent(DPT_CELL_LSTM);
    d.u.recurrent.has_bias = true;
    refuses(t, &d, "only a GRU");
    d = recurrent(DPT_CELL_GRU);
    d.u.recurrent.gives_cell = true;
    refuses(t, &d, "only an LSTM");
    d = recurrent(DPT_CELL_GRU);
    d.kind = DPT_OP_RECURRENT_BACKWARD;
    d.u.recurrent.no_gradient = true;
    refuses(t, &d, "without gates");
    d = recurrent(DPT_CELL_GRU);
    d.u.recurrent.length = 0;
    refuses(t, &d, "a sequence of 0");
    d = recurrent(DPT_CELL_GRU);
    d.u.recurrent.hidden = 0;
    refuses(t, &d, "zero");
    d.u.recurrent.cell = (dpt_recurrent_cell)7;
    refuses(t, &d, "no cell 7");
}

static void augmentations(test *t)
{
    dpt_op_desc d = {.kind = DPT_OP_GATHER,
                     .u.gather = {.dtype = DPT_U8,
                                  .count = 36,
                                  .n_records = 10,
                                  .channels = 3,
                                  .augment = {.height = 4, .width = 3, .pad = 2}}};
    takes(t, &d, "data u8 =360, index u32 1, sample u32 1", "x 36");
    d.u.gather.augment.pad = 4;
    refuses(t, &d, "a crop with 4 pixels of padding from 4x3");
    d.u.gather.augment = (dpt_augment){.height = 5, .width = 3, .flip = true};
    refuses(t, &d, "36 elements are no image of 5x3");
    d.u.gather.augment.height = 0;
    refuses(t, &d, "zero");
    d.u.gather.augment = (dpt_augment){.height = 4, .width = 3, .erase = -0.5f};
    refuses(t, &d, "erasing probability of -0.5");
    d.u.gather.augment.erase = NAN;
    refuses(t, &d, "erasing probability");
    d.u.gather.augment = (dpt_augment){.height = 4, .width = 3, .rotate = 180.0f, .hue = 0.5f};
    takes(t, &d, "data u8 =360, index u32 1, sample u32 1", "x 36");
    d.u.gather.augment.rotate = 181.0f;
    refuses(t, &d, "an angle of 181");
    d.u.gather.augment = (dpt_augment){.height = 4, .width = 3, .contrast = -0.1f};
    refuses(t, &d, "a jitter of contrast of -0.1");
    d.u.gather.augment = (dpt_augment){.height = 4, .width = 3, .hue = 0.6f};
    refuses(t, &d, "a jitter of hue of 0.6");
    d.u.gather.augment = (dpt_augment){.height = 4, .width = 3, .ops = 7, .magnitude = 9};
    refuses(t, &d, "7 operations of magnitude 9");
    d.u.gather.augment = (dpt_augment){.height = 4, .width = 3, .ops = 1, .magnitude = 31};
    refuses(t, &d, "1 operations of magnitude 31");
    d.u.gather.augment = (dpt_augment){.height = 6, .width = 3, .ops = 1};
    refuses(t, &d, "colours change in bytes of 1 or 3 channels only; these have 2");
    d.u.gather.augment = (dpt_augment){.height = 6, .width = 3, .saturation = 0.1f};
    refuses(t, &d, "colours change in bytes of 1 or 3 channels only; these have 2");
    d.u.gather.augment.height = 4;
    d.u.gather.dtype = DPT_F32;
    refuses(t, &d, "colours change in bytes");
    d.u.gather.augment = (dpt_augment){.height = 4, .width = 3, .rotate = 1.0f};
    takes(t, &d, "data =360, index u32 1, sample u32 1", "x 36");
    d.u.gather.dtype = DPT_U8;
    d.u.gather.augment = (dpt_augment){.height = 5, .width = 5}; /* of nothing: not looked at */
    takes(t, &d, "data u8 =360, index u32 1", "x 36");
    d = (dpt_op_desc){.kind = DPT_OP_GATHER_LABELS,
                      .u.gather = {.dtype = DPT_U8,
                                   .count = 1,
                                   .n_records = 10,
                                   .augment = {.height = 1, .width = 1, .flip = true}}};
    refuses(t, &d, "labels cannot be augmented");
}

static void dropouts(test *t)
{
    dpt_op_desc d = {.kind = DPT_OP_DROPOUT, .u.dropout = {.count = 6, .p = 0.5f, .stream = 1}};
    takes(t, &d, "x 6, sample u32 1", "y 6");
    d.u.dropout.stream = 0;
    refuses(t, &d, "stream 0");
    d.u.dropout.p = 1.0f;
    refuses(t, &d, "dropout probability of 1 is not in [0, 1)");
    d.u.dropout.p = NAN;
    refuses(t, &d, "dropout probability");
    d.u.dropout.count = 0;
    refuses(t, &d, "zero");
}

static void squared_errors(test *t)
{
    dpt_op_desc d = {.kind = DPT_OP_SQUARED_ERROR, .u.squared_error = {.count = 7}};
    takes(t, &d, "y 7, target 7", "result 2");
    d.kind = DPT_OP_SQUARED_ERROR_GRADIENT;
    takes(t, &d, "y 7, target 7", "result 2, dy 7");
    d.u.squared_error.count = 0;
    refuses(t, &d, "zero");
}

static void optimizers(test *t)
{
    const dpt_op_desc adamw = {
        .kind = DPT_OP_ADAMW,
        .u.adamw = {
            .count = 9, .decay_count = 9, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f}};
    dpt_op_desc d = adamw;
    takes(t, &d, "gradient =9", "w =9, m =9, v =9");
    d.u.adamw.decay_count = 10;
    refuses(t, &d, "10 of 9");
    d = adamw;
    d.u.adamw.beta1 = 1.0f;
    refuses(t, &d, "beta1 of 1");
    d = adamw;
    d.u.adamw.beta2 = -0.1f;
    refuses(t, &d, "beta2 of -0.1");
    d = adamw;
    d.u.adamw.epsilon = 0.0f; /* 0 / 0 where no gradient ever was */
    refuses(t, &d, "epsilon of 0");
    d = adamw;
    d.u.adamw.weight_decay = NAN;
    refuses(t, &d, "weight decay");
    d = (dpt_op_desc){.kind = DPT_OP_CLIP_NORM, .u.clip_norm = {.count = 9, .max_norm = 1.0f}};
    takes(t, &d, "", "gradient =9");
    d.u.clip_norm.max_norm = 0.0f;
    refuses(t, &d, "largest norm of 0");
    d.u.clip_norm.max_norm = INFINITY;
    refuses(t, &d, "largest norm");
    d.u.clip_norm.count = 0;
    refuses(t, &d, "zero");
}

static void others(test *t)
{
    dpt_op_desc d = {.kind = DPT_OP_ACTIVATION_FORWARD,
                     .u.activation = {.kind = DPT_ACT_TANH, .count = 6}};
    takes(t, &d, "x 6", "y 6");
    d.kind = DPT_OP_ACTIVATION_BACKWARD;
    takes(t, &d, "dy 6, y 6", "dx 6");
    d.u.activation.kind = DPT_ACT_GELU;
    takes(t, &d, "dy 6, x 6", "dx 6");
    d.u.activation.kind = (dpt_activation)-1;
    refuses(t, &d, "activation -1");
    d = (dpt_op_desc){.kind = DPT_OP_SOFTMAX_XENT, .u.softmax = {.classes = 10}};
    takes(t, &d, "logits 10, label i32 1", "result 2");
    d.kind = DPT_OP_SOFTMAX_XENT_GRADIENT;
    takes(t, &d, "logits 10, label i32 1", "result 2, dlogits 10");
    d.u.softmax.smoothing = 1.0f;
    refuses(t, &d, "label smoothing of 1 is not in [0, 1)");
    d.u.softmax.classes = 0;
    refuses(t, &d, "zero");
    d = (dpt_op_desc){.kind = DPT_OP_MULTIPLY, .u.elementwise = {.count = 4}};
    takes(t, &d, "a 4, b 4", "c 4");
    d.kind = DPT_OP_ADD;
    takes(t, &d, "a 4, b 4", "c 4");
    d.kind = DPT_OP_AFFINE;
    takes(t, &d, "a 4", "c 4");
    d.u.elementwise.count = 0;
    refuses(t, &d, "zero");
    d = (dpt_op_desc){.kind = DPT_OP_SGD, .u.sgd = {.count = 9, .decay_count = 9}};
    takes(t, &d, "gradient =9", "w =9");
    d.u.sgd.momentum = 0.9f;
    takes(t, &d, "gradient =9", "w =9, velocity =9");
    d.u.sgd.decay_count = 10;
    refuses(t, &d, "10 of 9");
    d.u.sgd.decay_count = 0;
    d.u.sgd.momentum = NAN;
    refuses(t, &d, "momentum");
    d = (dpt_op_desc){.kind = DPT_OP_COUNT};
    refuses(t, &d, "unknown operator");
}

/* Of some kinds, accumulating adds to some outputs only. */
static void accumulating_outputs(test *t)
{
    static const struct {
        dpt_op_kind kind;
        bool accumulates[DPT_MAX_OUTPUTS];
    } kinds[] = {
        {DPT_OP_BATCH_NORM_PARTIAL, {false}},
        {DPT_OP_BATCH_NORM_MERGE, {false, true, true}},
        {DPT_OP_BATCH_NORM_FREEZE, {false}},
        {DPT_OP_BATCH_NORM_FORWARD, {false}},
        {DPT_OP_BATCH_NORM_BACKWARD_PARTIAL, {false, true, true}},
        {DPT_OP_BATCH_NORM_BACKWARD_DATA, {true}},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const dpt_op_desc desc = batch_norm(kinds[i].kind);
        dpti_signature s;
        if (!CHECK_OK(dpti_op_signature(&desc, &s, NULL))) continue;
        for (size_t k = 0; k < s.n_out; k++)
            CHECK(s.out[k].accumulates == kinds[i].accumulates[k]);
        CHECK(s.reads_step == (kinds[i].kind == DPT_OP_BATCH_NORM_MERGE));
        CHECK(s.per_step == (kinds[i].kind == DPT_OP_BATCH_NORM_FREEZE));
    }
}

/* What a signature says besides its slots, for the kinds that draw random numbers, the losses and
   the optimizers. */
static void marks_of_drawn_and_stepped(test *t)
{
    const struct {
        dpt_op_desc desc;
        bool reads_step, may_accumulate, per_step;
    } cases[] = {
        {{.kind = DPT_OP_DROPOUT, .u.dropout = {.count = 1, .stream = 1}}, true, true, false},
        {{.kind = DPT_OP_SQUARED_ERROR, .u.squared_error = {.count = 1}}, false, false, false},
        {{.kind = DPT_OP_SQUARED_ERROR_GRADIENT, .u.squared_error = {.count = 1}},
         true,
         false,
         false},
        {{.kind = DPT_OP_ADAMW, .u.adamw = {.count = 1, .epsilon = 0.5f}}, true, false, true},
        {{.kind = DPT_OP_CLIP_NORM, .u.clip_norm = {.count = 1, .max_norm = 1}},
         false,
         false,
         true},
        {{.kind = DPT_OP_GATHER,
          .u.gather = {.dtype = DPT_U8, .count = 1, .n_records = 1, .channels = 1}},
         false,
         false,
         false},
        {{.kind = DPT_OP_GATHER,
          .u.gather = {.dtype = DPT_U8,
                       .count = 1,
                       .n_records = 1,
                       .channels = 1,
                       .augment = {.height = 1, .width = 1, .flip = true}}},
         true,
         false,
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpti_signature s;
        if (CHECK_OK(dpti_op_signature(&cases[i].desc, &s, NULL)) &&
            !CHECK(s.reads_step == cases[i].reads_step &&
                   s.may_accumulate == cases[i].may_accumulate && s.per_step == cases[i].per_step))
            FAIL("case %zu", i);
    }
}

/* Which kinds accumulate and which read the step block. */
static void marks(test *t)
{
    const dpt_op_desc accumulating[] = {
        conv(DPT_OP_CONV2D_BACKWARD_DATA),
        conv(DPT_OP_CONV2D_BACKWARD_WEIGHTS),
        {.kind = DPT_OP_LINEAR_BACKWARD_DATA, .u.linear = {.in = 1, .out = 1}},
        {.kind = DPT_OP_LINEAR_BACKWARD_WEIGHTS, .u.linear = {.in = 1, .out = 1}},
        {.kind = DPT_OP_ACTIVATION_BACKWARD, .u.activation = {.count = 1}},
    };
    const dpt_op_desc stepped[] = {
        {.kind = DPT_OP_SOFTMAX_XENT_GRADIENT, .u.softmax = {.classes = 2}},
        {.kind = DPT_OP_SGD, .u.sgd = {.count = 1}},
    };
    const dpt_op_desc plain[] = {
        conv(DPT_OP_CONV2D_FORWARD),
        {.kind = DPT_OP_SOFTMAX_XENT, .u.softmax = {.classes = 2}},
        {.kind = DPT_OP_ADD, .u.elementwise = {.count = 1}},
    };
    dpti_signature s;
    for (size_t i = 0; i < sizeof accumulating / sizeof *accumulating; i++)
        if (CHECK_OK(dpti_op_signature(&accumulating[i], &s, NULL)))
            CHECK(s.may_accumulate && !s.reads_step);
    for (size_t i = 0; i < sizeof stepped / sizeof *stepped; i++)
        if (CHECK_OK(dpti_op_signature(&stepped[i], &s, NULL)))
            CHECK(!s.may_accumulate && s.reads_step);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (CHECK_OK(dpti_op_signature(&plain[i], &s, NULL)))
            CHECK(!s.may_accumulate && !s.reads_step);
    CHECK_TEXT(dpti_op_name(DPT_OP_CONV2D_BACKWARD_DATA), "CONV2D_BACKWARD_DATA");
}

/* One line of DPT_OP_LIST: KIND, name, and how many slots it may have at most. */
typedef struct list_line {
    const char *kind, *name;
    size_t n_in, n_out;
} list_line;

static const list_line list_lines[] = {
#define DPT_IN(...)     +1
#define DPT_IN_IF(...)  +1
#define DPT_OUT(...)    +100
#define DPT_OUT_IF(...) +100
#define DPT_SUM(...)    +100
#define DPT_SUM_IF(...) +100
#define DPT_PART(...)   +100
#define LINE(kind_, name_, family, in_place, marks, slots)                                         \
    {.kind = #kind_, .name = #name_, .n_in = (0 slots) % 100, .n_out = (0 slots) / 100},
    DPT_OP_LIST(LINE)
#undef LINE
};

/* A name is its kind in lower case, and no operator has more slots than a call has room for. */
static void lines_of_the_list(test *t)
{
    for (size_t i = 0; i < sizeof list_lines / sizeof *list_lines; i++) {
        const list_line *l = &list_lines[i];
        char lower[64] = "";
        for (size_t c = 0; l->kind[c] && c + 1 < sizeof lower; c++)
            lower[c] = (char)tolower((unsigned char)l->kind[c]);
        CHECK_TEXT(l->name, lower);
        CHECK_TEXT(dpti_op_name((dpt_op_kind)i), l->kind);
        const dpt_op_family family = dpt_op_family_of((dpt_op_kind)i);
        /* No cell has all slots of RECURRENT, and no layout those of ATTENTION. */
        CHECK((l->n_in <= DPT_MAX_INPUTS && l->n_out <= DPT_MAX_OUTPUTS) ||
              family == DPT_FAMILY_RECURRENT || family == DPT_FAMILY_ATTENTION);
        CHECK(l->n_out >= 1 || family == DPT_FAMILY_MAP || family == DPT_FAMILY_MATMUL);
    }
    CHECK_SIZE(sizeof list_lines / sizeof *list_lines, DPT_OP_COUNT);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"convolutions", convolutions},
        {"programs over elements", maps},
        {"senseless programs", senseless_maps},
        {"batched products", products},
        {"senseless products", senseless_products},
        {"activations in bfloat16", half_as_large},
        {"bad_convolutions", bad_convolutions},
        {"linears", linears},
        {"pools", pools},
        {"gathers", gathers},
        {"batch_norms", batch_norms},
        {"bad_batch_norms", bad_batch_norms},
        {"layer_norms", layer_norms},
        {"rows", rows},
        {"attention", attention},
        {"recurrent layers", recurrent_layers},
        {"senseless recurrent layers", senseless_recurrent_layers},
        {"accumulating_outputs", accumulating_outputs},
        {"augmentations", augmentations},
        {"dropouts", dropouts},
        {"squared_errors", squared_errors},
        {"optimizers", optimizers},
        {"others", others},
        {"marks_of_drawn_and_stepped", marks_of_drawn_and_stepped},
        {"marks", marks},
        {"lines_of_the_list", lines_of_the_list},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
