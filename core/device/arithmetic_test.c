/* The self-test of deterministic training (arithmetic_test.h). */
#include "device/arithmetic_test.h"

#include "base/float_bits.h"
#include "device/buffer.h"
#include "device/operator.h"
#include "device/stream.h"

#include "backend.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAIRS = 64,   /* of operands, for each operation that the host has, too */
    MOST = PAIRS, /* elements of a call */
    ROWS = 3,     /* of the matrix product */
    INNER = 61,
    COLUMNS = 7,
};

/* ---- What is known --------------------------------------------------------------------------- */

/* Functions that the host's library may compute otherwise: arguments and results of
   backends/kernels/exact.h. */
static const struct {
    dpt_map_code code;
    uint32_t a, b, result;
} known[] = {
    {DPT_MAP_EXP, 0x3dcccccd, 0, 0x3f8d763e},
    {DPT_MAP_EXP, 0xbf3ae148, 0, 0x3ef6bcc6},
    {DPT_MAP_EXP, 0x40a9999a, 0, 0x4348563c},
    {DPT_MAP_EXP, 0xc18f3333, 0, 0x32909562},
    {DPT_MAP_EXP, 0x42b03333, 0, 0x7f0952b9},
    {DPT_MAP_EXP, 0xc2c8999a, 0, 0x00000014},
    {DPT_MAP_LOG, 0x3dcccccd, 0, 0xc0135d8e},
    {DPT_MAP_LOG, 0x3f800347, 0, 0x38d1bd51},
    {DPT_MAP_LOG, 0x3f7d70a4, 0, 0xbc24aa20},
    {DPT_MAP_LOG, 0x621e4b24, 0, 0x42402887},
    {DPT_MAP_LOG, 0x0020aac8, 0, 0xc2b16788},
    {DPT_MAP_LOG, 0x402ccccd, 0, 0x3f7e45c0},
    {DPT_MAP_SINE, 0x3e99999a, 0, 0x3e974e6d},
    {DPT_MAP_SINE, 0xc0066666, 0, 0xbf5cfb4b},
    {DPT_MAP_SINE, 0x41fd999a, 0, 0x3e8f7f68},
    {DPT_MAP_SINE, 0x4a895440, 0, 0x3f7fd015},
    {DPT_MAP_COSINE, 0x3e99999a, 0, 0x3f7490ef},
    {DPT_MAP_COSINE, 0xc0066666, 0, 0xbf013d97},
    {DPT_MAP_COSINE, 0x41fd999a, 0, 0x3f75bd6b},
    {DPT_MAP_COSINE, 0x4a895440, 0, 0x3d1c9a51},
    {DPT_MAP_TANH, 0x3a83126f, 0, 0x3a83126c},
    {DPT_MAP_TANH, 0xbebd70a4, 0, 0xbeb53e67},
    {DPT_MAP_TANH, 0x3ff33333, 0, 0x3f74cbfa},
    {DPT_MAP_TANH, 0x410b3333, 0, 0x3f7fffff},
    {DPT_MAP_ERF, 0x3a83126f, 0, 0x3a93e61c},
    {DPT_MAP_ERF, 0xbebd70a4, 0, 0xbecc64ba},
    {DPT_MAP_ERF, 0x3ff33333, 0, 0x3f7e2783},
    {DPT_MAP_ERF, 0x406ccccd, 0, 0x3f7ffffd},
    {DPT_MAP_SIGMOID, 0x3e4ccccd, 0, 0x3f0cc1ec},
    {DPT_MAP_SIGMOID, 0xc0533333, 0, 0x3d11b319},
    {DPT_MAP_SIGMOID, 0x4188cccd, 0, 0x3f7fffff},
    {DPT_MAP_SIGMOID, 0xc2b76666, 0, 0x0001a147},
    {DPT_MAP_SOFTPLUS, 0x3e4ccccd, 0, 0x3f4c52d4},
    {DPT_MAP_SOFTPLUS, 0xc0533333, 0, 0x3d145aa6},
    {DPT_MAP_SOFTPLUS, 0x4188cccd, 0, 0x4188cccd},
    {DPT_MAP_SOFTPLUS, 0xc2b76666, 0, 0x0001a147},
    {DPT_MAP_POWER, 0x3f8ccccd, 0x406ccccd, 0x3fb61f4a},
    {DPT_MAP_POWER, 0x3e99999a, 0xc00ccccd, 0x41622df3},
    {DPT_MAP_POWER, 0x418a6666, 0x3f000000, 0x40851934},
    {DPT_MAP_POWER, 0x40000000, 0xc2ff0000, 0x002d413d},
};

enum { KNOWN = sizeof known / sizeof *known };

/* Operations that round once to the nearest, on the host as well (core is compiled without
   contraction). */
static const dpt_map_code once[] = {DPT_MAP_ADD, DPT_MAP_SUBTRACT, DPT_MAP_MULTIPLY, DPT_MAP_DIVIDE,
                                    DPT_MAP_SQRT};

static float compute(dpt_map_code code, float a, float b)
{
    switch (code) {
    case DPT_MAP_ADD: return a + b;
    case DPT_MAP_SUBTRACT: return a - b;
    case DPT_MAP_MULTIPLY: return a * b;
    case DPT_MAP_DIVIDE: return a / b;
    default: return sqrtf(a);
    }
}

static const char *name_of(dpt_map_code code)
{
    static const char *const names[] = {
#define NAME(name, ...) [DPT_MAP_##name] = #name,
        DPT_MAP_LIST(NAME)
#undef NAME
    };
    return names[code];
}

/* Numbers of any size; every fourth pair has a subnormal one. */
static void make_operands(dpt_map_code code, float a[PAIRS], float b[PAIRS])
{
    uint32_t word = 0x9e3779b9u * (uint32_t)(code + 1);
    for (uint32_t i = 0; i < PAIRS; i++) {
        uint32_t bits[2];
        for (int k = 0; k < 2; k++) {
            word = word * 1664525u + 1013904223u;
            bits[k] = word ^ word >> 15;
        }
        const uint32_t exponent = 1 + (bits[0] >> 23) % 230;
        const uint32_t near = code == DPT_MAP_ADD || code == DPT_MAP_SUBTRACT
                                  ? exponent + bits[1] % 24
                                  : 20 + (bits[1] >> 23) % 210;
        bits[0] = (bits[0] & 0x807fffffu) | exponent << 23;
        bits[1] = (bits[1] & 0x807fffffu) | near << 23;
        if (i % 4 == 3) bits[0] &= 0x807fffffu;
        if (code == DPT_MAP_SQRT) bits[0] &= 0x7fffffffu;
        a[i] = dpti_float_of_bits(bits[0]);
        b[i] = dpti_float_of_bits(bits[1]);
    }
}

/* ---- One operator ---------------------------------------------------------------------------- */

typedef struct call {
    dpti_device *device;
    const dpt_op_desc *desc;
    size_t n_samples;
    const float *in[2];
    size_t n_in[2]; /* elements; 0: no such input */
    float *out;
    size_t n_out;
} call;

static dpt_status bind_and_run(const call *c, const dpti_op *op, dpti_buffer buffers[4])
{
    dpti_binding binding = {.flags = 0};
    dpt_op_args args;
    for (size_t i = 0; i < 2 && c->n_in[i] > 0; i++) {
        DPT_TRY(dpti_alloc(c->device, c->n_in[i] * sizeof(float), &buffers[i]));
        DPT_TRY(dpti_upload(&buffers[i], 0, c->in[i], c->n_in[i] * sizeof(float)));
        binding.in[i].buffer = &buffers[i];
    }
    DPT_TRY(dpti_alloc(c->device, c->n_out * sizeof(float), &buffers[2]));
    binding.out[0].buffer = &buffers[2];
    if (op->info.workspace_bytes > 0) {
        DPT_TRY(dpti_alloc(c->device, op->info.workspace_bytes, &buffers[3]));
        binding.workspace.buffer = &buffers[3];
    }
    DPT_TRY(dpti_bind(op, c->n_samples, &binding, &args));
    DPT_TRY(dpti_run(op, c->n_samples, &args));
    DPT_TRY(dpti_download(c->out, &buffers[2], 0, c->n_out * sizeof(float)));
    return dpti_sync(c->device);
}

static dpt_status run(const call *c)
{
    const dpt_op_request request = {
        .desc = c->desc, .max_samples = c->n_samples, .deterministic = true};
    dpti_buffer buffers[4] = {{.device = NULL}};
    dpti_op op = {.device = NULL};
    dpt_status status = dpti_prepare_as(c->device, &request, &op);
    if (status == DPT_OK) status = bind_and_run(c, &op, buffers);
    const dpt_error first = c->device->base.error;
    for (size_t i = 0; i < 4; i++)
        dpti_free(&buffers[i]);
    dpti_release(&op);
    if (status != DPT_OK) c->device->base.error = first;
    return status;
}

/* ---- Operations on elements ------------------------------------------------------------------ */

/* y = code(a, b) for n elements. */
static dpt_op_desc describe(dpt_map_code code, size_t n)
{
    const bool has_two = code == DPT_MAP_ADD || code == DPT_MAP_SUBTRACT ||
                         code == DPT_MAP_MULTIPLY || code == DPT_MAP_DIVIDE ||
                         code == DPT_MAP_POWER;
    const dpt_map_operand row = {.type = DPT_F32, .sampled = true, .size = n, .stride = {1}};
    dpt_op_desc desc = {.kind = DPT_OP_MAP};
    dpt_map_desc *d = &desc.u.map;
    d->rank = 1;
    d->extent[0] = n;
    d->n_in = has_two ? 2 : 1;
    d->n_out = 1;
    d->in[0] = d->in[1] = d->out[0] = row;
    d->code[0] = (dpt_map_instruction){.code = DPT_MAP_LOAD, .index = 0};
    d->code[1] = has_two ? (dpt_map_instruction){.code = DPT_MAP_LOAD, .index = 1}
                         : (dpt_map_instruction){.code = (uint8_t)code, .a = 0};
    d->code[2] = (dpt_map_instruction){.code = (uint8_t)code, .a = 0, .b = 1};
    d->n_code = has_two ? 3 : 2;
    d->value[0] = has_two ? 2 : 1;
    return desc;
}

/* y = a * b + a, in which the product is rounded before it is added. */
static dpt_op_desc describe_sum(size_t n)
{
    dpt_op_desc desc = describe(DPT_MAP_MULTIPLY, n);
    dpt_map_desc *d = &desc.u.map;
    d->code[3] = (dpt_map_instruction){.code = DPT_MAP_ADD, .a = 2, .b = 0};
    d->n_code = 4;
    d->value[0] = 3;
    return desc;
}

/* An operation with another result than the right one. */
typedef struct mistake {
    const char *what;
    float a, b, result, right;
} mistake;

static dpt_status tell(const dpti_device *device, const mistake *m, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_UNSUPPORTED,
                    "%s: %s of %08" PRIx32 " and %08" PRIx32 " gives %08" PRIx32
                    " in place of %08" PRIx32 ": its arithmetic is not that of deterministic "
                    "training; leave the device or deterministic out",
                    device->id, m->what, dpti_float_bits(m->a), dpti_float_bits(m->b),
                    dpti_float_bits(m->result), dpti_float_bits(m->right));
}

/* An operation on n elements, with what is right. */
typedef struct trial {
    dpt_map_code code;
    bool adds; /* a is added to the result */
    size_t n;
    float a[MOST], b[MOST], right[MOST];
} trial;

static dpt_status run_trial(dpti_device *device, const trial *t, dpt_error *error)
{
    float y[MOST];
    const size_t n = t->n;
    const dpt_op_desc desc = t->adds ? describe_sum(n) : describe(t->code, n);
    const char *what = t->adds ? "a product and a sum" : name_of(t->code);
    const call c = {.device = device,
                    .desc = &desc,
                    .n_samples = 1,
                    .in = {t->a, t->b},
                    .n_in = {n, desc.u.map.n_in == 2 ? n : 0},
                    .out = y,
                    .n_out = n};
    const dpt_status status = run(&c);
    if (status != DPT_OK) *error = device->base.error;
    DPT_TRY(status);
    for (size_t i = 0; i < n; i++)
        if (dpti_float_bits(y[i]) != dpti_float_bits(t->right[i]))
            return tell(device, &(mistake){what, t->a[i], t->b[i], y[i], t->right[i]}, error);
    return DPT_OK;
}

static dpt_status try_once(dpti_device *device, dpt_map_code code, dpt_error *error)
{
    trial t = {.code = code, .n = PAIRS};
    make_operands(code, t.a, t.b);
    for (size_t i = 0; i < PAIRS; i++)
        t.right[i] = compute(code, t.a[i], t.b[i]);
    return run_trial(device, &t, error);
}

/* A device that fuses the product with the sum rounds once in place of twice. */
static dpt_status try_sums(dpti_device *device, dpt_error *error)
{
    trial t = {.code = DPT_MAP_MULTIPLY, .adds = true, .n = PAIRS};
    make_operands(t.code, t.a, t.b);
    for (uint32_t i = 0; i < PAIRS; i++) {
        const uint32_t exponent = 120 + i % 14; /* near 1 */
        t.b[i] = dpti_float_of_bits((dpti_float_bits(t.b[i]) & 0x807fffffu) | exponent << 23);
        const float product = t.a[i] * t.b[i];
        t.right[i] = product + t.a[i];
    }
    return run_trial(device, &t, error);
}

/* Tries the known results from `first` on that belong to one code.  *end becomes the first one of
   another. */
static dpt_status try_known(dpti_device *device, size_t first, size_t *end, dpt_error *error)
{
    trial t = {.code = known[first].code};
    for (; first + t.n < KNOWN && known[first + t.n].code == t.code; t.n++) {
        t.a[t.n] = dpti_float_of_bits(known[first + t.n].a);
        t.b[t.n] = dpti_float_of_bits(known[first + t.n].b);
        t.right[t.n] = dpti_float_of_bits(known[first + t.n].result);
    }
    *end = first + t.n;
    return run_trial(device, &t, error);
}

/* ---- A matrix product ------------------------------------------------------------------------ */

static float term(size_t i)
{
    const uint32_t word = ((uint32_t)i + 1) * 0x85ebca6bu;
    return (float)((double)((int32_t)(word ^ word >> 13) >> 8) * 0x1p-22);
}

/* The second row is so small that its products are subnormal, and those of some columns zeros of
   both signs. */
static void make_factors(float x[ROWS * INNER], float w[COLUMNS * INNER])
{
    for (size_t i = 0; i < ROWS * INNER; i++)
        x[i] = term(i) * (i / INNER == 1 ? 0x1p-80f : 1.0f);
    for (size_t i = 0; i < COLUMNS * INNER; i++)
        w[i] = term(1000 + i) * (i / INNER < 3 ? 0x1p-90f : i / INNER < 5 ? 0x1p-62f : 1.0f);
}

/* Each element is one chain of fused multiply-adds that begins with 0. */
static dpt_status try_product(dpti_device *device, dpt_error *error)
{
    float x[ROWS * INNER], w[COLUMNS * INNER], y[ROWS * COLUMNS];
    const dpt_op_desc desc = {.kind = DPT_OP_LINEAR_FORWARD,
                              .u.linear = {.in = INNER, .out = COLUMNS}};
    const call c = {.device = device,
                    .desc = &desc,
                    .n_samples = ROWS,
                    .in = {x, w},
                    .n_in = {ROWS * INNER, COLUMNS * INNER},
                    .out = y,
                    .n_out = ROWS * COLUMNS};
    make_factors(x, w);
    const dpt_status status = run(&c);
    if (status != DPT_OK) *error = device->base.error;
    DPT_TRY(status);
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        const float *row = x + i / COLUMNS * INNER, *column = w + i % COLUMNS * INNER;
        float right = 0;
        for (size_t k = 0; k < INNER; k++)
            right = fmaf(row[k], column[k], right);
        if (dpti_float_bits(y[i]) != dpti_float_bits(right))
            return tell(device, &(mistake){"a product", row[0], column[0], y[i], right}, error);
    }
    return DPT_OK;
}

dpt_status dpti_arithmetic_test(dpti_device *device, dpt_error *error)
{
    for (size_t i = 0; i < sizeof once / sizeof *once; i++)
        DPT_TRY(try_once(device, once[i], error));
    DPT_TRY(try_sums(device, error));
    for (size_t i = 0; i < KNOWN;)
        DPT_TRY(try_known(device, i, &i, error));
    return try_product(device, error);
}
