/* The conformance suite, which every backend must pass on each of its devices.  It uses core's
   checked dispatch (device/), the vtable and the reference, and no particular backend.

   Every case runs inside a job of the device's driver thread. */
#ifndef DPT_TEST_CONFORMANCE_H
#define DPT_TEST_CONFORMANCE_H

#include "device/buffer.h"
#include "device/device.h"
#include "device/operator.h"
#include "harness.h"

#include <stdio.h>

/* How many calls were prepared as an algorithm. */
enum { MAX_WAYS = 96 };
typedef struct suite_way {
    char name[64];
    size_t n;
    bool of_product; /* of a convolution or a linear layer */
} suite_way;

typedef struct suite {
    dpti_device *device;
    bool complete;       /* the backend must support every description of the suite */
    size_t max_failures; /* of one case before it is given up */
    size_t max_work;     /* multiply-adds, or elements, of a call with several samples, */
    size_t max_single;   /* and with one */
    bool turns; /* a description has one of two numbers of samples that are near each other */
    bool deterministic; /* operators are prepared so, and their bits are compared */
    FILE *bits;         /* gets a line for each output of each call; or NULL */
    bool bits_alone;    /* outputs are not compared with the reference */
    const char *prefix; /* the device, in front of the cases' names; NULL if there is only one */
    size_t n_compared, n_unsupported;
    char algorithm[256]; /* of the device string: what names must begin with; empty: none given */
    size_t n_named;      /* operators that were prepared with such a one */
    suite_way ways[MAX_WAYS]; /* the first of them, by what they are called */
} suite;

/* The halt word of a call. */
typedef enum halt_case { HALT_NONE, HALT_ZERO, HALT_SET, N_HALT_CASES } halt_case;

/* One call of an operator. */
typedef struct op_case {
    dpt_op_desc desc;
    size_t n_samples, max_samples;
    size_t grain; /* samples of a grain (dpt_op_args); 0: none */
    bool accumulate;
    halt_case halt;
    bool integers; /* small-integer inputs: exact methods must match to the bit */
    bool nan;     /* one element of the first input is none; what it goes into is all that counts */
    bool arena;   /* all tensors in one buffer, else each in its own */
    int in_place; /* the input whose place the first output takes; -1: none */
    uint64_t seed;
} op_case;

/* Prepares the description for all calls of up to max_samples, whether it could; to be released
   then (run.c). */
bool conformance_prepare(test *t, const op_case *c, dpti_op *op);
/* Runs twice and compares with the reference. */
void conformance_check(test *t, const dpti_op *op, const op_case *c);
/* All calls of one description in the device's type of activations: numbers of samples, with and
   without accumulating, integers and not, in place where the table allows it (vary.c). */
void conformance_vary(test *t, const dpt_op_desc *desc, uint64_t seed);
/* A few calls with a NaN, which must not get lost: a run that diverges must show (vary.c). */
void conformance_nan(test *t, const dpt_op_desc *desc);
/* "CONV2D_FORWARD 5x4x3 ..., n 3 of 8": one line that tells a failing case. */
void conformance_describe(const op_case *c, char *out, size_t n_bytes);

/* A hash of the bits of n elements.  All NaNs have the same, because devices differ in theirs. */
uint64_t conformance_bits(const void *data, dpt_dtype dtype, size_t n);

/* The tensors of a call, for chains.c. */
typedef struct conformance_tensors {
    size_t n; /* samples */
    const float *in[DPT_MAX_INPUTS];
    const float *before; /* the first output, if the call accumulates; else NULL */
} conformance_tensors;

/* Whether conformance_chain knows the first output of a deterministic operator to the bit. */
bool conformance_has_chain(const dpt_op_desc *desc);
/* Element i of the first output. */
float conformance_chain(const dpt_op_desc *desc, const conformance_tensors *t, size_t i);

static inline suite *suite_of(test *t)
{
    return t->user;
}

static inline bool conformance_enough(test *t)
{
    return t->n_failures >= suite_of(t)->max_failures;
}

/* A case: its name is that of the operator kind, or of what it tries. */
typedef struct suite_case {
    const char *name;
    void (*body)(test *t);
} suite_case;

extern const suite_case operator_cases[];
extern const size_t n_operator_cases;
extern const suite_case device_cases[];
extern const size_t n_device_cases;

/* ---- Tensors in guarded memory (tensors.c) --------------------------------------------------- */

enum { MAX_TENSORS = DPT_MAX_INPUTS + DPT_MAX_OUTPUTS + 2 };

/* A quiet NaN, as any use of it shows.  Guards and poison differ, so that a copy of one into the
   other is seen. */
#define GUARD_WORD  UINT32_C(0x7FC5A5A5)
#define POISON_WORD UINT32_C(0x7FC0DEAD)

typedef struct tensor {
    const char *name;
    dpt_dtype dtype;
    size_t n; /* elements */
    size_t n_bytes;
    bool written; /* output or workspace: the only places that a run may change */
    bool scratch; /* workspace: what it holds afterwards means nothing */
    size_t buffer, offset_bytes;
} tensor;

/* Device buffers with the tensors of a call, guard words around each, and their contents on the
   host before and after a run (of a large workspace only what is around it). */
typedef struct arena {
    dpti_device *device;
    size_t n_tensors, n_buffers;
    tensor tensors[MAX_TENSORS];
    dpti_buffer buffers[MAX_TENSORS];
    unsigned char *before[MAX_TENSORS], *after[MAX_TENSORS], *again[MAX_TENSORS];
} arena;

/* Adds a tensor; its index. */
size_t arena_add(arena *a, const tensor *added);
/* Places the tensors (all in one buffer, or each in its own), allocates, fills with guards and
   poison.  Accepts to be destroyed after a failure. */
DPT_CHECK_RESULT dpt_status arena_create(arena *a, dpti_device *device, bool one_buffer,
                                         test_random *random);
void arena_destroy(arena *a);
/* The host's copy of a tensor. */
void *arena_before(const arena *a, size_t tensor);
const void *arena_after(const arena *a, size_t tensor);
/* Uploads `before`; downloads everything into `images`; both wait. */
DPT_CHECK_RESULT dpt_status arena_upload(const arena *a);
DPT_CHECK_RESULT dpt_status arena_download(const arena *a, unsigned char *const images[]);
/* Fails the test if a byte outside the written tensors differs from `before`. */
void arena_check_guards(test *t, const arena *a, const char *what);
/* The same, and if `after` and `again` differ anywhere but in scratch. */
void arena_check(test *t, const arena *a, const char *what);

#endif
