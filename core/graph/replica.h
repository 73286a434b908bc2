/* A model on one device: its flat buffers, and the programs that are bound to them.

   The device's driver thread makes all these calls. */
#ifndef DPTI_REPLICA_H
#define DPTI_REPLICA_H

#include "base/recorded.h"
#include "device/buffer.h"
#include "device/operator.h"
#include "graph/call.h"
#include "graph/gathered.h"
#include "graph/grain_nodes.h"
#include "graph/grain_sums.h"
#include "graph/program.h"

/* The step buffer holds the step block, then the record numbers of this device's samples.  One
   upload per step transfers both.  The host's staging memory has the same layout. */
enum { DPTI_STEP_INDEX_OFFSET = 256 };

static inline size_t dpti_step_bytes(size_t n_samples)
{
    return DPTI_STEP_INDEX_OFFSET + 4 * n_samples;
}

/* In a training that mixes samples the record numbers of partners follow, and then `elements`
   float32 for each sample.  These are the places in a buffer for so many samples. */
static inline size_t dpti_step_partners_offset(size_t capacity)
{
    return (dpti_step_bytes(capacity) + 255) / 256 * 256;
}

static inline size_t dpti_step_mix_offset(size_t capacity)
{
    return (dpti_step_partners_offset(capacity) + 4 * capacity + 255) / 256 * 256;
}

/* Bytes of a step buffer; `elements` 0: samples are not mixed. */
static inline size_t dpti_step_buffer_bytes(size_t capacity, size_t elements)
{
    if (elements == 0) return dpti_step_bytes(capacity);
    return dpti_step_mix_offset(capacity) + 4 * elements * capacity;
}

typedef struct dpti_replica {
    dpti_device *device;
    const dpt_model *model;
    /* The algorithms that programs must use for the layers that it lists; NULL: the device
       chooses.  To be set after the replica is created and before its programs are.  With
       `insists`, an algorithm that the device cannot use is a failure; otherwise the device
       chooses for that layer. */
    const dpti_recorded_choices *wanted;
    bool insists;
    size_t capacity;        /* largest micro-batch; 0: the device takes part in commits only */
    dpti_buffer parameters; /* (flat_size) float32; `gathers`: what gathered.h says */
    bool borrows;           /* the parameters are those of another replica */
    dpti_buffer gradients;  /* (n_gradients) float32; windowed: (nodes.places.n_elements) */
    dpti_grain_nodes nodes; /* deterministic: gradients of the nodes of grains behind the first one,
                               whose gradients are in `gradients` */
    /* The optimizer has divided sums.  `gradients` then has the places of `nodes`, and is made with
       the program of training. */
    bool windowed;
    dpti_buffer sums; /* windowed: summed gradients: those of the device's elements, and behind them
                         those from flat_trained on; empty if there are none */
    size_t sums_begin, sums_end; /* the device's elements */
    /* The optimizer has divided parameters: programs gather them (gathered.h).  *source is host
       memory with all parameters, (flat_size), at the latest when a program runs. */
    bool gathers;
    float *const *source;
    bool kept; /* windowed: host memory keeps buckets between micro-batches.  Who restores them also
                  clears them (train/compute/window.h) */
    /* (flat_gradients) the optimizer's state, if the optimizer has it; of a divided state the
       device's elements */
    dpti_buffer velocity, squares;
    dpti_buffer constants; /* (model->n_constants) float32, then the table of class weights; empty
                              without both */
    dpti_buffer arena;     /* shared by the programs; the first program determines its size */
    dpti_buffer step;
    float inv_labels;  /* of the step block that was uploaded last, for functions of the program */
    dpti_buffer halt;  /* one float32: 0 until a single-launch step was not finite */
    dpt_event *moving; /* before transfers that a segment waits for */
    dpt_event *start, *end; /* around a segment */
    dpt_event *fetched;     /* behind the download of parts that other devices take */
} dpti_replica;

/* What a replica is made for. */
typedef struct dpti_replica_options {
    const dpt_model *model;
    size_t capacity;            /* the largest number of samples at once */
    dpti_optimizer optimizer;   /* decides which buffers of training state are needed */
    const float *class_weights; /* (classes) or NULL */
    size_t mix_elements;        /* as dpti_mix_elements says */
    bool predicts;              /* only programs of DPTI_PURPOSE_PREDICT are made: no gradients */
    size_t n_gradients;         /* as in dpti_program; 0: flat_gradients */
    /* A replica on the same device, of a model with the same parameters, which this one uses in
       place of its own; it is destroyed later.  NULL: none. */
    const struct dpti_replica *lender;
} dpti_replica_options;

/* Allocates the flat buffers that the optimizer needs, filled with zeros.  After a failure `out`
   holds what was allocated, and the caller must destroy it. */
DPT_CHECK_RESULT dpt_status dpti_replica_create(dpti_device *device,
                                                const dpti_replica_options *options,
                                                dpti_replica *out);
/* Uploads the initial values of the model's parameters, and waits.  Errors: as
   dpti_initialize_pieces, in *error; failures of the device, which leave *error as it is. */
DPT_CHECK_RESULT dpt_status dpti_replica_initialize(dpti_replica *replica,
                                                    const dpti_initial *initial, dpt_error *error);
/* Where an element of the flat buffer of the parameters is that the device keeps (gathered.h). */
dpti_place dpti_parameter_place(const dpti_replica *replica, size_t element);
/* Where an element of the flat buffer of the gradients is, in the backward pass. */
dpti_place dpti_gradient_place(const dpti_replica *replica, size_t element);
void dpti_replica_destroy(dpti_replica *replica); /* accepts a zeroed struct; sets it to zero */
size_t dpti_replica_bytes(const dpti_replica *replica);

/* Recordings of a segment are kept for this many numbers of samples: a full batch, the ragged last
   batch, and those that a change of shards brings. */
enum { DPTI_RECORDINGS = 4 };

typedef struct dpti_recorded {
    dpt_recording *recording; /* NULL: not recorded yet, or refused */
    bool refused;             /* the device refuses to record the segment */
    bool ran;                 /* the segment has run directly, with success */
    size_t n_samples;
    dpti_grain_run run; /* of a deterministic program, else zero */
    uint64_t
        used; /* when it was used last, for replacing the least recently used recording; 0: never */
} dpti_recorded;

/* The places of a segment's part and of the gathered parts. */
typedef struct dpti_exchange_places {
    dpti_place part, parts;
} dpti_exchange_places;

/* A program bound to a replica: prepared operators, and arguments that point to places in
   memory. */
struct dpti_executable {
    dpti_replica *replica;
    dpti_program program;
    dpti_op *ops;        /* (n_instructions) */
    dpt_op_args *args;   /* (n_instructions) */
    dpti_buffer arena;   /* its own arena, if the replica's arena is too small */
    size_t result_bytes; /* offset of the result in the arena, in bytes */
    size_t chunk_rows;   /* the most rows of a chunk; 0: the program has no chunks (chunks.h) */
    dpti_exchange_places (*exchanges)[DPTI_MOST_PARTS]; /* (n_segments) */
    dpti_recorded (*recorded)[DPTI_RECORDINGS];         /* (n_segments) */
    uint64_t clock;
    bool touched;   /* the last run has failed, but may have changed training state */
    bool first_run; /* the last run was the first run of its segment for this number of samples, on
                   a device that records late: libraries have loaded what they need, in the host's
                   time */
    dpti_calls calls;
    dpti_grain_sums *sums; /* of a deterministic program, else NULL (grain_sums.h) */
    dpti_fetches fetches;  /* of a replica that gathers parameters, else none (gathered.h) */
};

/* The places of a program's data, in memory that the device can access. */
typedef struct dpti_data_places {
    const dpti_buffer *images, *answers; /* labels or targets */
    const dpti_buffer *rows; /* if records are sent with the step: the numbers 0, 1, ... */
    size_t partner_rows;     /* bytes: from where on `rows` has the places of partners' records */
} dpti_data_places;

/* What is compiled, and where its data are. */
typedef struct dpti_executable_options {
    dpti_program_options program;
    dpti_data_places data;
} dpti_executable_options;

/* Compiles the program in the device's type, prepares every operator, plans memory and binds
   arguments.  After a failure `out` holds what was made, and the caller must destroy it.  Errors:
   DPT_E_UNSUPPORTED, whose message names the layer; failures of the device, with details in
   *error. */
DPT_CHECK_RESULT dpt_status dpti_executable_create(dpti_replica *replica,
                                                   const dpti_executable_options *options,
                                                   dpti_executable *out, dpt_error *error);
void dpti_executable_destroy(dpti_executable *executable); /* accepts a zeroed one */

/* The floating-point operations of a run for n_samples; `again`: only those of values that the
   backward pass computes again (recompute.c). */
double dpti_executable_flops(const dpti_executable *executable, size_t n_samples, bool again);
/* Describes the i-th operation that the device executes; returns false if there are not so
   many. */
bool dpti_executable_operation(const dpti_executable *executable, size_t i, dpt_operation *out);
/* Returns the algorithms of all operations; the caller frees `out`.  Errors: DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_executable_choices(const dpti_executable *executable,
                                                    dpti_recorded_choices *out);

/* Enqueues a segment for n_samples <= capacity.  Replays a recording if there is one.  Otherwise
   it makes a recording first, unless the device records late.  `run` tells the grains of the
   samples of a deterministic program; NULL where the segment sums over no samples. */
DPT_CHECK_RESULT dpt_status dpti_executable_run(dpti_executable *executable, size_t segment,
                                                size_t n_samples, const dpti_grain_run *run);
/* Records the segment that was run last, if the device records late and has not recorded it yet.
   This takes time on the host and none on the device.  To be called outside of measured times. */
DPT_CHECK_RESULT dpt_status dpti_executable_record(dpti_executable *executable, size_t segment,
                                                   size_t n_samples, const dpti_grain_run *run);
/* Enqueues the download of the first n_samples results.  After the download dpti_executable_widen
   converts them to (n, program.result_elements) float32. */
DPT_CHECK_RESULT dpt_status dpti_executable_result(dpti_executable *executable, size_t n_samples,
                                                   float *host);
void dpti_executable_widen(const dpti_executable *executable, size_t n_samples, float *host);

#endif
