/* A model on one device: its flat buffers, and the programs that are bound to them.

   The device's driver thread makes all these calls. */
#ifndef DPTI_REPLICA_H
#define DPTI_REPLICA_H

#include "graph/program.h"

/* The step buffer: the step block, then the indices of this device's samples.  One upload a step
   carries both; host staging has the same layout. */
enum { DPTI_STEP_INDEX_OFFSET = 256 };

static inline size_t dpti_step_bytes(size_t n_samples)
{
    return DPTI_STEP_INDEX_OFFSET + 4 * n_samples;
}

typedef struct dpti_replica {
    dpti_device *device;
    const dpt_model *model;
    /* The algorithms that programs are to take, where it has their layers; NULL: the device
       chooses. Set between creating the replica and its programs.  With `insists` one that cannot
       be had is a failure, else the device chooses there. */
    const dpti_recorded_choices *wanted;
    bool insists;
    size_t capacity;                   /* most samples of one pass; 0: takes part in commits only */
    dpti_buffer parameters, gradients; /* flat_size float32 */
    dpti_buffer velocity, squares;     /* the optimizer's state, where it has it; likewise */
    dpti_buffer arena;                 /* shared by the programs, grown by the first */
    dpti_buffer step;
    dpti_buffer halt;  /* one float32, 0 until a step of a program that is whole was not finite */
    dpt_event *moving; /* before transfers that a segment waits for */
    dpt_event *start, *end; /* around a segment */
    dpt_event *fetched;     /* behind what is downloaded for others to take */
} dpti_replica;

/* Allocates the flat buffers that this optimizer needs, zeroed.  On failure *out holds what was
   made: destroy it. */
DPT_CHECK_RESULT dpt_status dpti_replica_create(dpti_device *device, const dpt_model *model,
                                                size_t capacity, const dpti_optimizer *optimizer,
                                                dpti_replica *out);
void dpti_replica_destroy(dpti_replica *replica); /* accepts a zeroed one; zeroes it */
size_t dpti_replica_bytes(const dpti_replica *replica);

/* Recordings of a segment are kept for this many numbers of samples: a full batch, the ragged last
   one, and what a change of shares brings. */
enum { DPTI_RECORDINGS = 4 };

typedef struct dpti_recorded {
    dpt_recording *recording; /* NULL: not recorded yet, or */
    bool refused;             /* not to be recorded */
    bool ran;                 /* directly, and that went well */
    size_t n_samples;
    uint64_t used; /* when, for replacing the least recently used; 0: never */
} dpti_recorded;

/* Where a part of a segment's and the gathered ones stand. */
typedef struct dpti_exchange_places {
    dpti_place part, parts;
} dpti_exchange_places;

/* A program bound to a replica: prepared operators, and arguments with places. */
typedef struct dpti_executable {
    dpti_replica *replica;
    dpti_program program;
    dpti_op *ops;        /* (n_instructions) */
    dpt_op_args *args;   /* (n_instructions) */
    dpti_buffer arena;   /* its own, if the replica's is too small for it */
    size_t result_bytes; /* offset of the result in the arena */
    dpti_exchange_places (*exchanges)[DPTI_MOST_PARTS]; /* (n_segments) */
    dpti_recorded (*recorded)[DPTI_RECORDINGS];         /* (n_segments) */
    uint64_t clock;
    bool touched; /* the last run may have changed what lasts, though it failed */
    bool fresh;   /* it was the first of its segment for so many samples, on a device that records
                     late: libraries have loaded what they need, on the host's time */
} dpti_executable;

/* Where a program finds its data, in a memory that the device sees. */
typedef struct dpti_data_places {
    const dpti_buffer *images, *answers; /* labels or targets */
    const dpti_buffer *rows;             /* where records are fed: 0, 1, ... */
} dpti_data_places;

/* Compiles in the device's type, prepares every operator, plans memory and binds. DPT_E_UNSUPPORTED
   names the layer; the detail of a device's failure is in *error.  On failure *out holds what was
   made: destroy it.
 */
DPT_CHECK_RESULT dpt_status dpti_executable_create(dpti_replica *replica,
                                                   const dpti_program_options *options,
                                                   const dpti_data_places *data,
                                                   dpti_executable *out, dpt_error *error);
void dpti_executable_destroy(dpti_executable *executable); /* accepts a zeroed one */

/* The i-th operation of those that the device takes part in; false if there are not so many. */
bool dpti_executable_operation(const dpti_executable *executable, size_t i, dpt_operation *out);
/* The algorithms of all of them; *out is to be freed.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_executable_choices(const dpti_executable *executable,
                                                    dpti_recorded_choices *out);

/* Enqueues a segment for n_samples <= capacity; replays a recording where there is one, and makes
   one first unless the device records late. */
DPT_CHECK_RESULT dpt_status dpti_executable_run(dpti_executable *executable, size_t segment,
                                                size_t n_samples);
/* Records what was run just now, if the device records late and has not done so.  Takes the host's
   time and none of the device's: to be called where no time is taken. */
DPT_CHECK_RESULT dpt_status dpti_executable_record(dpti_executable *executable, size_t segment,
                                                   size_t n_samples);
/* Enqueues the download of the first n_samples results, of which `widen`, when they have come,
   makes (n, program.result_elements) float32. */
DPT_CHECK_RESULT dpt_status dpti_executable_result(dpti_executable *executable, size_t n_samples,
                                                   float *host);
void dpti_executable_widen(const dpti_executable *executable, size_t n_samples, float *host);

#endif
