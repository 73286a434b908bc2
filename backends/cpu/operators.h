/* Operators inside the backend: the form of a kernel, what a kernel is given, and the table that
   maps each kind of operator to its preparation and its kernel.

   The files in kernels/ are compiled once for every instruction set; each compilation fills one
   kernel set.  They may include this header and team.h. */
#ifndef DPT_CPU_OPERATORS_H
#define DPT_CPU_OPERATORS_H

#include "backend.h"
#include "blas.h"
#include "team.h"

/* One call of an operator, its locations made addresses.  Unused slots are NULL. */
typedef struct dpt_cpu_call {
    const dpt_op *op; /* NULL for copies and fills */
    dpt_cpu_team *team;
    size_t n_samples; /* bytes, for copies and fills */
    const void *in[DPT_MAX_INPUTS];
    void *out[DPT_MAX_OUTPUTS];
    float *workspace;
    const dpt_step_block *step;
    const float *halt; /* where it is not 0 the kernel is not called; NULL: it is */
    bool accumulate;
    uint32_t pattern; /* of a fill */
} dpt_cpu_call;

/* Does the part of a call that falls to `thread`.  n_threads is the whole team, or 1 where the work
   is too small to be divided; the results depend on it in their rounding at most.  Ends without a
   barrier. */
typedef void dpt_cpu_kernel(const dpt_cpu_call *call, unsigned thread, unsigned n_threads);

/* A kernel with its call: what a stream does, at once or when a recording is replayed. */
typedef struct dpt_cpu_work {
    dpt_cpu_kernel *kernel;
    dpt_cpu_call call;
    bool alone; /* thread 0 does it alone */
} dpt_cpu_work;

/* What a kind's preparation says of an operator. */
typedef struct dpt_cpu_plan {
    dpt_cpu_kernel *kernel;
    void *state; /* tables that the kernel reads, or NULL; released with free */
    double work; /* a sample's cost, in units of about a nanosecond on one core */
    size_t workspace_bytes;
    double flops;
    bool exact;
    size_t mixes; /* as in dpt_op_info */
    const char *algorithm;
} dpt_cpu_plan;

enum { DPT_CPU_MEASURED_BYTES = 160 };

struct dpt_op {
    dpt_op_desc desc;
    size_t max_samples;
    const dpt_cpu_blas *blas; /* its sgemm may be NULL */
    unsigned n_threads;       /* of the team */
    bool asked_for;           /* by name: whatever it is good for */
    dpt_cpu_plan plan;
    char measured[DPT_CPU_MEASURED_BYTES]; /* as in dpt_op_info; empty: nothing */
};

/* Fills in op->plan, which is zeroed, from the rest of *op.  After a failure core's release frees
   what was set. */
typedef dpt_status dpt_cpu_prepare(dpt_op *op, dpt_error *error);

typedef struct dpt_cpu_kernel_set {
    const char *name;     /* "avx512" */
    bool (*usable)(void); /* on this processor */
    dpt_cpu_prepare *prepare[DPT_OP_COUNT];
    /* Other ways to do a kind, ended by NULL, or NULL: each DPT_E_UNSUPPORTED where it does not
       apply.  Their plans name their algorithms. */
    dpt_cpu_prepare *const *ways[DPT_OP_COUNT];
} dpt_cpu_kernel_set;

/* Best first, ended by NULL; the last is portable and always usable. */
extern const dpt_cpu_kernel_set *const dpt_cpu_kernel_sets[];

/* The kernels of copies and fills, for all instruction sets. */
dpt_cpu_kernel dpt_cpu_copy_kernel;
dpt_cpu_kernel dpt_cpu_fill_kernel;

/* ---- Small arithmetic for kernels ------------------------------------------------------------ */

/* A range cut in two at a place, which may lie outside: the parameters with and those without
   weight decay. */
typedef struct dpt_cpu_cut {
    dpt_cpu_range before, after;
} dpt_cpu_cut;

static inline dpt_cpu_cut dpt_cpu_cut_at(dpt_cpu_range range, size_t at)
{
    const size_t border = at < range.begin ? range.begin : at > range.end ? range.end : at;
    return (dpt_cpu_cut){{range.begin, border}, {border, range.end}};
}

/* Whether a constant leaves small integers exact. */
static inline bool dpt_cpu_small_integer(float x)
{
    return x > -4096.0f && x < 4096.0f && (float)(int)x == x;
}

/* Products and sums of sizes that stick at SIZE_MAX, so that one check at the end finds overflow.
 */
static inline size_t dpt_cpu_mul(size_t a, size_t b)
{
    size_t product;
    return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

static inline size_t dpt_cpu_add(size_t a, size_t b)
{
    size_t sum;
    return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

static inline size_t dpt_cpu_ceil_div(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

/* Floats rounded up to whole cache lines, so that the parts of a workspace begin at one. */
static inline size_t dpt_cpu_round(size_t n_floats)
{
    return n_floats > SIZE_MAX - 16 ? SIZE_MAX : (n_floats + 15) / 16 * 16;
}

#endif
