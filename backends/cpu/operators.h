/* Operators inside the backend: the form of a kernel, the arguments of a kernel, and the kernel
   set, which maps each kind of operator to its preparations.

   The files of kernels/ are compiled once for each instruction set, and each compilation makes one
   kernel set.  These files include this header and team.h, and no other header of this folder. */
#ifndef DPT_CPU_OPERATORS_H
#define DPT_CPU_OPERATORS_H

#include "backend.h"
#include "blas.h"
#include "team.h"

/* One call of an operator, with addresses in place of locations.  Unused slots are NULL. */
typedef struct dpt_cpu_call {
    const dpt_op *op; /* NULL for copies and fills */
    dpt_cpu_team *team;
    size_t n_samples; /* of copies and fills: bytes */
    const void *in[DPT_MAX_INPUTS];
    void *out[DPT_MAX_OUTPUTS];
    float *workspace; /* of an operator: not NULL, to which C lets no kernel add even 0 */
    const dpt_step_block *step;
    const float *halt; /* the halt word; the kernel is not called while it is set.  NULL: none */
    bool accumulate;
    size_t grain;     /* as in dpt_op_args */
    uint32_t pattern; /* of a fill */
} dpt_cpu_call;

/* Computes the part of a call that belongs to `thread`.  n_threads is the size of the team, or 1 if
   the work is too small to be divided.  Results depend on n_threads at most in their rounding.  A
   kernel ends without a barrier. */
typedef void dpt_cpu_kernel(const dpt_cpu_call *call, unsigned thread, unsigned n_threads);

/* A kernel with its call.  A stream executes a work at once, or when a recording is replayed. */
typedef struct dpt_cpu_work {
    dpt_cpu_kernel *kernel;
    dpt_cpu_call call;
    bool alone; /* thread 0 executes the work alone */
} dpt_cpu_work;

/* What a preparation fills in. */
typedef struct dpt_cpu_plan {
    dpt_cpu_kernel *kernel;
    void *state; /* tables that the kernel reads, or NULL; released with `free` */
    double work; /* the cost of one sample, in about nanoseconds on one core */
    size_t workspace_bytes;
    double flops;
    bool exact;
    size_t mixes;    /* as in dpt_op_info */
    bool has_grains; /* as in dpt_op_info */
    const char *algorithm;
} dpt_cpu_plan;

enum { DPT_CPU_MEASURED_BYTES = 160 };

struct dpt_op {
    dpt_op_desc desc;
    size_t max_samples;
    const dpt_cpu_blas *blas; /* its sgemm may be NULL */
    unsigned n_threads;       /* of the team */
    bool asked_for; /* an algorithm was asked for by name: it is offered even if it is slow here */
    bool deterministic; /* as in dpt_op_request: sums have the orders of docs/reproducibility.md */
    dpt_cpu_plan plan;
    float no_workspace;                    /* no kernel reads or writes this number */
    char measured[DPT_CPU_MEASURED_BYTES]; /* as in dpt_op_info; empty if nothing was measured */
};

/* Fills in op->plan, which the caller has zeroed, from the rest of *op.  The caller frees
   op->plan.state after a failure, too. */
typedef dpt_status dpt_cpu_prepare(dpt_op *op, dpt_error *error);

typedef struct dpt_cpu_kernel_set {
    const char *name;     /* "avx512" */
    bool (*usable)(void); /* on this processor */
    dpt_cpu_prepare *prepare[DPT_OP_COUNT];
    /* Further algorithms of a kind, ended by NULL; or NULL.  A preparation returns
       DPT_E_UNSUPPORTED if its algorithm does not apply.  Plans name their algorithms. */
    dpt_cpu_prepare *const *ways[DPT_OP_COUNT];
    /* The preparation of a deterministic operator; NULL: that of `prepare`, which then looks at
       dpt_op.deterministic where it matters. */
    dpt_cpu_prepare *fixed[DPT_OP_COUNT];
    /* The set that prepares deterministic operators: the same kernels with fused multiply-adds.
       NULL: this set itself. */
    const struct dpt_cpu_kernel_set *fused;
} dpt_cpu_kernel_set;

/* The best set first, ended by NULL.  The last set is portable and always usable. */
extern const dpt_cpu_kernel_set *const dpt_cpu_kernel_sets[];

/* The kernels of copies and fills, which serve all instruction sets (memory.c). */
dpt_cpu_kernel dpt_cpu_copy_kernel;
dpt_cpu_kernel dpt_cpu_fill_kernel;

/* ---- Small arithmetic for kernels ------------------------------------------------------------ */

/* A range cut in two: the parameters with weight decay, and those without.  The cut may lie outside
   the range. */
typedef struct dpt_cpu_cut {
    dpt_cpu_range before, after;
} dpt_cpu_cut;

static inline dpt_cpu_cut dpt_cpu_cut_at(dpt_cpu_range range, size_t at)
{
    const size_t border = at < range.begin ? range.begin : at > range.end ? range.end : at;
    return (dpt_cpu_cut){{range.begin, border}, {border, range.end}};
}

/* Whether products with a constant leave small integers exact. */
static inline bool dpt_cpu_small_integer(float x)
{
    return x > -4096.0f && x < 4096.0f && (float)(int)x == x;
}

/* Products and sums that become SIZE_MAX when they overflow, and stay there.  One check at the end
   of a computation finds the overflow. */
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

/* n_floats rounded up to whole cache lines, so that every part of a workspace begins at one. */
static inline size_t dpt_cpu_round(size_t n_floats)
{
    return n_floats > SIZE_MAX - 16 ? SIZE_MAX : (n_floats + 15) / 16 * 16;
}

#endif
