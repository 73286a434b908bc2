/* The trainer's insides: one worker per device, and a ring of steps in flight.

   The caller's thread submits a step by posting one job, a share, to every device's driver, and
   collects it by waiting for those jobs.  The jobs of a step meet in the all-reduce, where they
   also vote; only a unanimous step is committed.  So nothing here needs a lock: what the caller
   writes is posted with the job, and what a job writes is read after its ticket. */
#ifndef DPTI_TRAINER_H
#define DPTI_TRAINER_H

#include "balance/account.h"
#include "balance/balance.h"
#include "balance/settled.h"
#include "balance/split.h"
#include "base/times.h"
#include "collective/allgather.h"
#include "collective/allreduce.h"
#include "collective/rendezvous.h"
#include "device/driver.h"
#include "device/side_stream.h"
#include "graph/replica.h"
#include "io/log.h"
#include "train/exchange/islands.h"
#include "train/exchange/link_probe.h"
#include "train/feeding/batch_reader.h"
#include "train/feeding/data_store.h"
#include "train/feeding/feed.h"
#include "train/feeding/order.h"
#include "train/membership/membership.h"
#include "train/membership/readmit.h"
#include "train/membership/standby.h"
#include "train/peers/peers.h"
#include "train/pipeline/finite.h"
#include "train/pipeline/micro_batches.h"
#include "train/recovery/verify.h"

/* In flight: two, so that devices go on while the host looks at a step.  Slots: those, and the
   metrics of the last two, which the caller may still hold. */
enum { DPTI_MAX_IN_FLIGHT = 2, DPTI_STEP_SLOTS = 4 };

/* Kinds of what outlives a step: parameters, and the optimizer's state. */
enum { DPTI_MAX_STATE_BUFFERS = 3 };

typedef struct dpti_worker dpti_worker;
typedef struct dpti_share dpti_share;
typedef struct dpti_in_flight_step dpti_in_flight_step;

/* One device's part of one step. */
struct dpti_share {
    dpti_worker *worker;
    size_t step; /* from 1 */
    float lr;
    size_t n_samples;
    size_t *of_batch; /* (accumulate) of these, in each of the step's n_batches */
    size_t n_batches;
    uint8_t *staging;         /* step block and indices, laid out as the step buffer */
    size_t slot;              /* of the feed */
    bool late;                /* as in dpti_contribution */
    const dpt_error *unread;  /* it has no images: the flight's, or NULL */
    const bool *contributing; /* the flight's */
    float *result;            /* (capacity, 2) likewise */
    uint64_t ticket;
    /* Written by the job. */
    bool under_way;    /* enqueued whole, and what comes of it is not known (whole.c) */
    dpt_status status; /* DPT_E_CANCELLED: not this device's fault */
    dpt_error error;
    bool committed;   /* the vote was unanimous */
    uint64_t hash;    /* of the replica, in a step that compares */
    bool diverged;    /* it differs from another one's: nobody has gone on */
    const char *flaw; /* with DPT_E_NOT_FINITE: what was not, as in "loss"; or DPTI_FLAW_UNREAD */
    double loss;      /* sum over the share */
    size_t hits;
    dpti_times times;
    bool fresh;      /* times are those of a first run (replica.h), or not known */
    double finished; /* when */
};

/* Points in a device's stream, by which a step that nobody waits for is timed. */
typedef struct dpti_marks {
    dpt_event *moving;      /* before its transfers */
    dpt_event *start, *end; /* around its segment */
    dpt_event *passed;      /* behind its results */
} dpti_marks;

/* Data sets that stay bound for evaluation: validation and test data take turns every epoch. */
enum { DPTI_TESTS = 2 };

typedef struct dpti_test {
    const dpt_dataset *data; /* NULL: free */
    dpti_purpose purpose;
    dpti_data_store store; /* where the data are not those of training */
    uint64_t used;         /* when, for replacing the least recently used */
} dpti_test;

/* One worker's part of it. */
typedef struct dpti_worker_test {
    dpti_executable evaluate;
    dpti_feed own_feed; /* if the data are not resident and the feed of training does not serve */
    const dpti_feed *feed; /* the one of these that does, or NULL */
} dpti_worker_test;

struct dpti_in_flight_step {
    dpti_cursor cursor; /* before the step */
    size_t n_samples;
    bool last_of_epoch;
    float lr;
    double submitted;
    double data_seconds;      /* of waiting for images that are read */
    dpt_error unread;         /* with several processes: why this one has none; or status DPT_OK */
    dpti_share *shares;       /* (n_workers) */
    bool *contributing;       /* (processes) which have samples; NULL: there is this one alone */
    dpti_outcome *outcomes;   /* (n_devices) what came of everybody's, once it is over */
    dpt_error failure;        /* with several processes: of one of them, or status DPT_OK; */
    bool diverged;            /* that they took different steps */
    uint64_t weights;         /* as in dpti_outcome */
    size_t *shards;           /* (n_devices) for the metrics */
    double *device_seconds;   /* likewise: busy, */
    double *exchange_seconds; /* uploads and exchanges, which are part of that, */
    double *waiting_seconds;  /* and waiting */
    double *throughput;       /* likewise */
    dpti_balance_reason reason; /* for shards that differ from those before */
};

/* In what a program may make calls on a trainer that dpt_fit has. */
typedef enum dpti_callback {
    DPTI_CALLBACK_NONE = 0, /* dpt_fit's own, or there is none */
    DPTI_CALLBACK_OF_EPOCH, /* nothing is in flight */
    DPTI_CALLBACK_OTHER,    /* of a step, an event, a notice */
} dpti_callback;

/* What has happened to devices and was not told yet, the oldest first. */
typedef struct dpti_device_event {
    dpt_device_event_kind kind;
    size_t device, step;
    dpt_error error;
} dpti_device_event;

typedef struct dpti_device_events {
    size_t n, n_taken, room;
    dpti_device_event *events;
} dpti_device_events;

struct dpti_worker {
    dpt_trainer *trainer;
    dpti_device *device;
    size_t rank;          /* among the workers of this process */
    size_t capacity;      /* most samples of a share */
    size_t pass_limit;    /* most samples at once whatever that is (passes.h); SIZE_MAX: none */
    bool cached;          /* since its caches hold no more */
    dpti_replica replica; /* its capacity: most samples at once.  A larger share takes passes */
    /* Where the host sees what lasts of the replica, else NULL. */
    const float *views[DPTI_MAX_STATE_BUFFERS];
    float *parts;    /* batch-norm's on their way (allgather.h); NULL where none are exchanged */
    float *verified; /* where the replica is downloaded to be hashed; NULL: it is seen in place */
    dpti_executable train;
    dpti_executable
        alone;      /* where it is not the only one, the same for steps that it does alone; */
    bool not_alone; /* which cannot be had */
    /* One of these: its steps are one piece of work each (whole.c), NULL: several.  Set by the
       caller when nothing is in flight. */
    dpti_executable *whole;
    dpti_marks marks[DPTI_STEP_SLOTS]; /* whole steps are timed by these, */
    dpt_event *last_end; /* of the last one that is over; NULL: no such time is known, */
    double ended;        /* when, by the host's clock */
    bool halts;          /* by its own thread: a whole step failed, and the halt word may
                            be set */
    /* The algorithms that it took when it was built first: built anew, for other shares, and for
       evaluation it takes the same, so that the log's choices are those of the whole run. */
    dpti_recorded_choices kept;
    dpti_finite finite;    /* of all gradients: where it is alone, or they are its island's sum */
    dpti_looks looks;      /* since it was in an island first, */
    dpti_side_stream side; /* likewise */
    dpti_island_slot island_slot;       /* where it is in one */
    dpti_feed feed;                     /* where the data are not resident */
    dpti_worker_test tests[DPTI_TESTS]; /* as trainer->tests */
    size_t room; /* most samples at once: the replica's capacity, until it has run out of memory */
    size_t held; /* most samples of a batch in a step that counts */
    bool halted; /* by its own thread: a step failed; what is in flight behind it is skipped.  Reset
                    by the caller when nothing is in flight. */
    size_t halted_step; /* which */
    bool unclean; /* by its own thread: a step failed, whose sums, made or not, were of anything:
                     the gradients are not zero where no segment writes them */
    bool starves; /* by its own thread: it had no memory for its last one */
    size_t last_step;       /* in which it took part, from 1 */
    dpti_membership member; /* whether it takes part, and whether its replica can be trusted */
    bool told;              /* an event has told that it rests (resting.h) */
    dpt_error hung_error;   /* of the call that did not return in time, once it has hung */
    bool prepares;          /* what it does may take longer than what it does in a step */
    dpti_readmission readmission; /* while it is gone, and how it has failed before */
    unsigned long long seen_call; /* what it was in when it was looked at, and for how long */
    double seen_seconds;
    bool fresh;   /* by its own thread: a segment of the step was */
    bool looking; /* likewise: the segment's gradients are those to be brought */
    const dpti_gather
        *contributes; /* likewise: parts that are fetched behind the segment, or NULL */
    /* By its own thread: transfers are on their way that the next segment waits for, and count as
       this. */
    bool moves;
    dpti_span_kind moving;
};

struct dpt_trainer {
    dpt_context *context;
    const dpt_device_set *devices;
    const dpt_model *model;
    const dpt_dataset *data;
    dpti_program_options program;
    size_t batch_size, micro_batch; /* micro_batch: most samples at once, 0 if not told */
    size_t accumulate;              /* batches of a step, at least 1 */
    uint64_t seed;
    dpt_batch_norm_mode batch_norm;
    dpt_compression compress;
    float lr;
    char *split_text;
    dpti_split split;  /* of steps with fixed shares, and of evaluation */
    bool measured;     /* shares follow throughput; with one device there is nothing to follow */
    bool takes_passes; /* if measured: devices together hold less at once than a batch */
    dpti_balance *balance; /* if measured */
    dpti_account account;
    bool traced;        /* shares keep the spans of their times */
    dpti_replay replay; /* n_steps 0: none */
    dpti_order order;
    dpti_batch_reader reader;
    dpti_cursor done, next; /* steps committed; steps submitted */
    dpti_data_store store;
    dpti_test tests[DPTI_TESTS];
    uint64_t test_clock;
    dpti_allreduce *allreduce;
    dpti_feedback feedback;    /* of this process, where exchanges with others are packed */
    dpti_allgather *allgather; /* of batch-norm's parts; NULL where nothing is exchanged */
    size_t n_workers;          /* this process's, */
    dpti_worker *workers;
    size_t n_devices, first_device;    /* of all processes; those of workers begin there */
    dpti_peer *peers;                  /* (n_devices) all of them */
    dpti_processes *processes;         /* NULL if there is this one alone; else: */
    size_t *firsts, *outcome_begins;   /* (processes + 1) devices, and bytes of outcomes */
    dpti_rendezvous *finished;         /* of workers, behind a step */
    dpti_link_probe link_probe;        /* how gradients travel between them */
    dpti_recorded_choices *algorithms; /* (n_devices) of all of them (algorithms.h) */
    atomic_uint requests;              /* of this process, dpti_run_request bits */
    unsigned agreed_requests;          /* of all, with the last collected step */
    size_t stopped_by; /* the first process that wished to stop, once it is granted */
    dpti_in_flight_step slots[DPTI_STEP_SLOTS];
    size_t n_in_flight;
    dpt_error unsubmitted; /* why a step that was in flight could not be submitted again behind one
                              that was; or status DPT_OK.  And with which rate it is tried again: */
    float unsubmitted_lr;
    double last_finished; /* when the last collected step ended */
    bool lost;            /* no replica holds trusted weights */
    /* What lasts, where no device was left that could be made anew to hold it; else NULL. */
    float *last_state[DPTI_MAX_STATE_BUFFERS];
    bool diverged;           /* processes took different steps: their weights are worth nothing */
    bool written;            /* weights were, since those of all processes were compared */
    double readmit_after;    /* seconds before a lost device is tried again; 0: never */
    size_t returned_step;    /* the last that began with a device that was taken in again */
    size_t verify_every;     /* steps between comparisons of replicas; 0: never */
    size_t settled_step;     /* the last that was done again because of one */
    dpti_rendezvous *checks; /* for these; NULL: never */
    dpti_islands islands;
    dpti_settled settled; /* what members of islands have been through */
    dpti_standby standby;
    bool stop_on_loss;
    double device_timeout; /* 0: by default */
    double longest_step;   /* seconds, of those collected */
    bool broken;           /* meetings send everybody away, until nothing is in flight */
    bool salvage; /* what lasts is read in passing, where the host sees it: the device is lost */
    dpti_device_events events;
    dpti_callback callback; /* of dpt_fit, which waits for its return */
    /* The step at which the optimizer's state was zero, and batches that running statistics had
       seen before step 1, modulo 2^64: loading weights sets both. */
    size_t optimizer_origin, batches_before;
};

/* What could not be submitted is of no interest any more: nothing in flight, or nobody waits for
 * it.
 */
static inline void dpti_trainer_forget_unsubmitted(dpt_trainer *trainer)
{
    trainer->unsubmitted.status = DPT_OK;
    trainer->reader.reason = DPTI_BALANCE_SAME;
}

/* Samples of a step; the last one of an epoch may have fewer. */
static inline size_t dpti_step_samples(const dpt_trainer *trainer)
{
    return trainer->batch_size * trainer->accumulate;
}

/* Whether a worker's shares can be more than it computes at once. */
static inline bool dpti_has_micro_batches(const dpti_worker *worker)
{
    return worker->replica.capacity < worker->capacity;
}
bool dpti_any_has_micro_batches(const dpt_trainer *trainer);
/* Devices of this process that are lost. */
size_t dpti_trainer_n_lost(const dpt_trainer *trainer);
/* What membership.h says of a worker: its device is lost; its driver thread was given up; it rests;
   its replica is not that of the last committed step. */
static inline bool dpti_is_lost(const dpti_worker *worker)
{
    return dpti_membership_lost(&worker->member);
}
static inline bool dpti_is_hung(const dpti_worker *worker)
{
    return dpti_membership_hung(&worker->member);
}
static inline bool dpti_is_standby(const dpti_worker *worker)
{
    return dpti_membership_standby(&worker->member);
}
static inline bool dpti_is_stale(const dpti_worker *worker)
{
    return worker->member.replica != DPTI_REPLICA_VALID;
}
/* Whether a device has no part in steps. */
static inline bool dpti_sits_out(const dpti_worker *worker)
{
    return dpti_is_lost(worker) || dpti_is_standby(worker);
}
/* Those that have one. */
size_t dpti_trainer_n_present(const dpt_trainer *trainer);

/* Options with every default in its place, NULL being all of them, for so many samples, and the
   learning rate scaled to the samples of a step; of bucket_bytes 0 stays (options.c). */
dpt_trainer_options dpti_trainer_resolve(const dpt_trainer_options *options, size_t n_samples);
/* Whether the sizes of buckets are chosen by measurement: they are not given, and make no
   difference to what is computed, as they do where gradients are compressed (options.c). */
bool dpti_trainer_chooses_buckets(const dpt_trainer_options *options);
/* Checks such options and data against the model and takes them over (options.c).  When the workers
   are there, check_shares looks for passes in which a batch-norm would take its own statistics over
   a single value. */
DPT_CHECK_RESULT dpt_status dpti_trainer_take_options(dpt_trainer *trainer,
                                                      const dpt_trainer_options *options);
DPT_CHECK_RESULT dpt_status dpti_trainer_check_shares(dpt_trainer *trainer);

/* Brings what was written of its data to the memories of a store, nothing in flight; devices that
   are lost at it are gone then. */
DPT_CHECK_RESULT dpt_status dpti_trainer_publish_data(dpt_trainer *trainer, dpti_data_store *store);
/* Where its data are placed: on the devices that are not absent (n_workers; NULL: none is). */
dpti_placing dpti_trainer_placing(dpt_trainer *trainer, const bool *absent);

/* The device that could not do something, and why. */
typedef struct dpti_failing_rank {
    size_t rank; /* n_workers: none */
    dpt_error error;
} dpti_failing_rank;

/* Creates every worker's replica and programs with these weights (worker.c).  Where a device's
   memory does not hold them beside the data, the data are fed to it, a step's at a time; where it
   does not hold them then either, they are made for as many samples at once as it holds.  After a
   failure destroy_workers frees what was made. */
DPT_CHECK_RESULT dpt_status dpti_trainer_create_workers(dpt_trainer *trainer, const float *weights,
                                                        dpti_failing_rank *failing);
void dpti_trainer_destroy_workers(dpt_trainer *trainer);
/* One of them, for its capacity; the error of a failure, which may be that it hangs, is in *error.
   What was made is destroyed with the worker. */
DPT_CHECK_RESULT dpt_status dpti_trainer_create_worker(dpt_trainer *trainer, size_t rank,
                                                       const float *weights, dpt_error *error);
void dpti_worker_destroy(dpti_worker *worker); /* [driver] */
void dpti_worker_destroy_job(dpti_device *device, void *worker);
/* What its program of training is made of, in segments. */
void dpti_worker_program(const dpti_worker *worker, dpti_program_options *options,
                         dpti_data_places *places);
/* Creates those that are left anew, for their capacities, with the weights and the optimizer's
   state as they are; nothing in flight.  All processes call it.  Those that fail at it, or hang,
   are lost.  After a failure nobody is left, and what lasts is in trainer->orphans. */
DPT_CHECK_RESULT dpt_status dpti_trainer_rebuild(dpt_trainer *trainer);

/* [driver] The job of a share (step.c). */
void dpti_step_job(dpti_device *device, void *share);

/* ---- Whole steps (whole.c) ---- */

/* Whether a device that nobody exchanges with does a step as one piece of work: the host's side of
   it is nothing but what the device makes known by its halt word, so the next step is enqueued
   while it computes.  So it is where a share is one pass, and where the host does not see the
   device's memory: looking there takes a way to and fro. */
bool dpti_may_use_single_launch(const dpti_worker *worker);
/* [driver] What times them.  On failure what was made is destroyed with the worker's replica. */
DPT_CHECK_RESULT dpt_status dpti_single_launch_create(dpti_worker *worker);
void dpti_single_launch_destroy(dpti_worker *worker);
/* With nothing in flight, when it is known who takes part: a device that is left alone does whole
   steps from now on, by a program that is made when it is alone first, in the memory of the other
   one, and one that is not goes back to that.  The bits are the same.  DPT_E_CANCELLED: it hangs,
   or is lost, and others may be to do so. */
DPT_CHECK_RESULT dpt_status dpti_single_launch_settle(dpt_trainer *trainer);
/* [driver] Enqueues a share's step.  If it is under way then, dpti_single_launch_finish, a job for
   when the next one is enqueued or nobody submits one, tells what came of it. */
void dpti_single_launch_begin(dpti_share *share);
void dpti_single_launch_finish(dpti_device *device, void *share);

/* ---- What came of a share (step.c), for its driver ---- */

/* What there is to know of downloaded losses; DPT_E_NOT_FINITE, as below. */
DPT_CHECK_RESULT dpt_status dpti_share_add_results(dpti_share *share);
/* DPT_E_NOT_FINITE, with what was not: a constant word. */
dpt_status dpti_share_not_finite(dpti_share *share, const char *flaw);
/* Ends a share that has changed what lasts, or, with a failure, should have. */
void dpti_share_commit(dpti_share *share, dpt_status status);
/* Ends one that has failed before that; its worker skips what is in flight behind. */
void dpti_share_fail(dpti_share *share, dpt_status status);
/* Makes gradients that a failed step has left zero again. */
DPT_CHECK_RESULT dpt_status dpti_worker_clean(dpti_worker *worker);

/* [driver] Enqueues a segment, waits, and adds what the device took, by its own clock, to *times
   (NULL: nowhere): the segment, throttle included, and transfers before it that worker->moves
   tells of, which throttle does not stretch: it makes a slower processor.  If result is not NULL it
   gets the (n_samples, 2) losses and hits.  If worker->looking says so, the device looks at its
   gradients where it does that itself; and if worker->brings does, it fetches these parts. */
DPT_CHECK_RESULT dpt_status dpti_worker_run(dpti_worker *worker, dpti_executable *executable,
                                            size_t segment, size_t n_samples, float *result,
                                            dpti_times *times);
/* [driver] Enqueues the upload of the step block and of the indices of samples [first, first +
   n_samples) of the share that staging memory holds. */
DPT_CHECK_RESULT dpt_status dpti_worker_upload(const dpti_worker *worker, const uint8_t *staging,
                                               size_t first, size_t n_samples);
/* Lays a step block and indices out in staging memory. */
void dpti_stage(uint8_t *staging, const dpt_step_block *block, const uint32_t *records,
                size_t n_samples);

/* Reads or writes one replica's flat buffer (flat_size float32); nothing in flight.  The context's
   error tells. */
DPT_CHECK_RESULT dpt_status dpti_trainer_read(dpt_trainer *trainer, size_t rank,
                                              dpt_tensor_kind kind, float *flat);
DPT_CHECK_RESULT dpt_status dpti_trainer_write(dpt_trainer *trainer, size_t rank,
                                               dpt_tensor_kind kind, const float *flat);
/* Gives every stale replica that does not rest the weights and the optimizer's state of one that is
   not stale, and whose device is there; nothing in flight.  Fails if one could not be repaired; the
   others are (state.c).  refresh: those that rest, too. */
DPT_CHECK_RESULT dpt_status dpti_trainer_restore(dpt_trainer *trainer);
DPT_CHECK_RESULT dpt_status dpti_trainer_refresh(dpt_trainer *trainer);
/* Nothing in flight: where training has gone back (dpti_standby_rewind) it does the steps since
   once more (flights.c). */
DPT_CHECK_RESULT dpt_status dpti_trainer_catch_up(dpt_trainer *trainer);

/* DPT_E_INVALID if the data have not what the loss compares with (options.c). */
DPT_CHECK_RESULT dpt_status dpti_trainer_check_answers(dpt_trainer *trainer,
                                                       const dpt_dataset *data);
/* DPT_E_INVALID if the data do not fit the model's input and classes, or the loss (evaluate.c). */
DPT_CHECK_RESULT dpt_status dpti_trainer_check_test(dpt_trainer *trainer, const dpt_dataset *data);
/* The i-th kind of what outlives a step. */
dpt_tensor_kind dpti_state_buffer_kind(size_t i);
/* Gives every device these: flat buffers, (dpti_trainer_n_state_buffers).  One that cannot be
   written is stale from then on; the first failure is returned. */
DPT_CHECK_RESULT dpt_status dpti_trainer_adopt_state(dpt_trainer *trainer,
                                                     const float *const *flats);
/* New weights, and an optimizer that has not moved yet, on every device: `zeros` is a flat buffer
   of them. */
DPT_CHECK_RESULT dpt_status dpti_trainer_adopt(dpt_trainer *trainer, const float *weights,
                                               const float *zeros);
/* What outlives a step, of one replica that can be trusted and read: `flats` gets n_lasting flat
   buffers, which the caller frees.  Devices that turn out to be lost here are. */
size_t dpti_trainer_n_state_buffers(const dpt_trainer *trainer);
DPT_CHECK_RESULT dpt_status dpti_trainer_read_state_buffers(dpt_trainer *trainer,
                                                            float *flats[DPTI_MAX_STATE_BUFFERS]);
/* Writes a flat buffer of the kind-th lasting thing to one replica. */
DPT_CHECK_RESULT dpt_status dpti_trainer_write_state_buffers(
    dpt_trainer *trainer, size_t rank, float *const flats[DPTI_MAX_STATE_BUFFERS]);
void dpti_trainer_free_state_buffers(float *flats[DPTI_MAX_STATE_BUFFERS]);
/* Forgets what evaluation has bound, on every device (evaluate.c). */
void dpti_trainer_unbind_tests(dpt_trainer *trainer);
/* The worker of a device of all processes' if it is this one's, else DPT_E_INVALID. */
DPT_CHECK_RESULT dpt_status dpti_trainer_own_device(const dpt_trainer *trainer, size_t device,
                                                    size_t *rank);
/* Whether sums over processes are packed, so that every process owes them something that lasts. */
static inline bool dpti_packs(const dpt_trainer *trainer)
{
    return trainer->feedback.count > 0;
}

/* Reads what lasts from the first replica that can be read.  Devices that fail at it are lost if
   another one does not, but for salvage, and where losses end the call.  DPT_E_STATE if no device
   holds trusted weights. */
DPT_CHECK_RESULT dpt_status dpti_trainer_read_trusted(dpt_trainer *trainer, size_t n_kinds,
                                                      float *const *flats);
/* A flat buffer of zeros in host memory; NULL without memory, which the context's error tells. */
float *dpti_trainer_make_flat(dpt_trainer *trainer);
/* The first replica whose weights can be trusted, though its device may be lost; n_workers if there
   is none. */
size_t dpti_trainer_trusted(const dpt_trainer *trainer);

/* Takes "measured", "equal", "A:B:C" or "replay:LOG" (shares.c). */
DPT_CHECK_RESULT dpt_status dpti_trainer_take_split(dpt_trainer *trainer, const char *text);
/* The path of the log whose shares are replayed; NULL if none is. */
const char *dpti_trainer_replayed(const dpt_trainer *trainer);
/* Sets each worker's capacity: the most samples that it will see, in full batches, in the ragged
   last one, in the log, and with the devices that are left. */
DPT_CHECK_RESULT dpt_status dpti_trainer_find_capacities(dpt_trainer *trainer);
/* DPT_E_INVALID if the log that is replayed does not have n_steps beyond those submitted. */
DPT_CHECK_RESULT dpt_status dpti_trainer_check_steps(dpt_trainer *trainer, size_t n_steps);
/* How many batches a step of n_samples > 0 takes; the last one may be ragged. */
size_t dpti_trainer_n_batches(const dpt_trainer *trainer, size_t n_samples);
/* The rows of batch b, from 0, of a step in which devices have these shares in all: (n_devices). As
   even over its batches as they can be, and for the same shares the same. */
void dpti_trainer_batch_rows(const dpt_trainer *trainer, const size_t *shares, size_t n_samples,
                             size_t b, size_t *rows);
/* The shares of the flight's step, whose cursor and samples are set, and why they changed.  Chosen
   in the order of submission. */
DPT_CHECK_RESULT dpt_status dpti_trainer_divide(dpt_trainer *trainer,
                                                dpti_in_flight_step *inflight);
/* Takes in what a step has taken: the devices, and `seconds` from start to end. */
void dpti_trainer_observe(dpt_trainer *trainer, const dpti_in_flight_step *inflight,
                          double seconds);
/* The shares that a first batch would begin with, (n_devices). */
DPT_CHECK_RESULT dpt_status dpti_trainer_first_shares(dpt_trainer *trainer, size_t *rows);
/* When the workers are there and their capacities are known. */
DPT_CHECK_RESULT dpt_status dpti_trainer_start_balance(dpt_trainer *trainer);
/* The split of evaluation, in the proportions of what has been measured, if anything has. */
void dpti_trainer_update_split(dpt_trainer *trainer);

/* Remembers what devices have held in a step that counts (memory.c). */
void dpti_trainer_note_held(dpt_trainer *trainer, const dpti_in_flight_step *inflight);
/* Whether a step failed for lack of memory, before the commit and for nothing else. */
bool dpti_trainer_ran_out(const dpt_trainer *trainer, const dpti_in_flight_step *inflight);
/* From now on the devices that ran out of memory in this step get fewer samples.  DPT_E_NO_MEMORY,
   with the device named, if shares are fixed, if one had no samples, or if the devices would not
   hold a batch any more: the bound of the device that is named stays as it was. */
DPT_CHECK_RESULT dpt_status dpti_trainer_bound_shares(dpt_trainer *trainer,
                                                      const dpti_in_flight_step *inflight);
/* Whether a device had no memory for the update of this step, which counts; it is given the others'
   weights, or, where they have none either, those of devices that rested.  A failure, with the
   device named, if nobody has any. */
bool dpti_trainer_starved(const dpt_trainer *trainer, const dpti_in_flight_step *inflight);
DPT_CHECK_RESULT dpt_status dpti_trainer_feed_starved(dpt_trainer *trainer,
                                                      const dpti_in_flight_step *inflight);

/* Whether nobody sums this device's gradients with others'. */
static inline bool dpti_is_alone(const dpti_worker *worker)
{
    const dpt_trainer *t = worker->trainer;
    return !t->processes && dpti_trainer_n_present(t) == 1;
}
/* Whether its backend sums them with others'. */
static inline bool dpti_in_island(const dpti_worker *worker)
{
    return worker->island_slot.island != NULL;
}
/* Says of a step in which a device has met DPT_E_NOT_FINITE what was not finite, and where
   (finite.c): the training's fault if it was so on every device, else that of those named, each
   with an event.  All processes say the same. */
dpt_status dpti_trainer_fail_not_finite(dpt_trainer *trainer, dpti_in_flight_step *inflight);
/* What was not, in step `step`, and what to do. */
dpt_status dpti_trainer_diverges(dpt_error *error, const char *flaw, size_t step, float lr);

/* ---- Devices that do not answer (deadline.c) ---- */

/* Waits for a job, with an eye on all devices.  false: this worker hangs (dpti_is_hung), and the
   job has not run or not to its end: nothing that it was given may be freed. */
bool dpti_trainer_await(dpt_trainer *trainer, size_t rank, uint64_t ticket);
/* Nothing is in flight: posts and awaits.  prepare: what compiles, measures, or places data, and
   may take longer. */
bool dpti_trainer_call(dpt_trainer *trainer, size_t rank, dpti_job *job, void *argument);
bool dpti_trainer_prepare(dpt_trainer *trainer, size_t rank, dpti_job *job, void *argument);
/* Nothing is in flight: notes whose thread was given up by somebody else, who released data or
   another trainer. */
void dpti_trainer_note_hung(dpt_trainer *trainer);
/* Nothing is in flight: posts what releases something of a worker, and awaits it.  false: it hangs,
   now or already, and has what was to be released for ever. */
bool dpti_trainer_release(dpt_trainer *trainer, size_t rank, dpti_job *job, void *argument);
/* Nothing is in flight: meetings that were broken take place again. */
void dpti_trainer_mend(dpt_trainer *trainer);

/* ---- Devices that die (survive.c) ---- */

/* Whether this failure of a device means that it is lost: the one place that says so. */
bool dpti_is_loss(dpt_status status);
/* Whether a device was lost in this step. */
bool dpti_trainer_lost_some(const dpt_trainer *trainer, const dpti_in_flight_step *inflight);
bool dpti_same_fault_domain(const dpti_device *a, const dpti_device *b);
/* Whether a worker takes part in meetings. */
void dpti_trainer_set_present(dpt_trainer *trainer, size_t rank, bool present);
/* Goes on without the devices whose errors[i] (n_workers) is not NULL and a loss, and without those
   of their fault domains: nothing in flight.  DPT_OK: training can go on.  Otherwise nobody is
   lost, and it is the first of these errors: no device would be left, or losses are to end the
   call; or the others could not be prepared for larger shares. */
DPT_CHECK_RESULT dpt_status dpti_trainer_lose(dpt_trainer *trainer, const dpt_error *const *errors);
/* The same for one, and for those of the n steps from the one with this cursor.step on. */
DPT_CHECK_RESULT dpt_status dpti_trainer_lose_one(dpt_trainer *trainer, size_t rank,
                                                  const dpt_error *error);
DPT_CHECK_RESULT dpt_status dpti_trainer_lose_in_flight(dpt_trainer *trainer, size_t step,
                                                        size_t n);
/* One that could not be made anew, while the others are not there yet: a failure if there are none.
 */
DPT_CHECK_RESULT dpt_status dpti_trainer_lose_unmade(dpt_trainer *trainer,
                                                     const dpti_failing_rank *failing);
/* All that are left, which have no replicas any more; takes what lasts. */
void dpti_trainer_forsake(dpt_trainer *trainer, float *flats[DPTI_MAX_STATE_BUFFERS]);
/* The same for those that were given up outside of a step: a job that is posted to one would run on
   the caller's thread and wait there for the others. */
DPT_CHECK_RESULT dpt_status dpti_trainer_lose_hung(dpt_trainer *trainer);
/* The most elements that a device brings to a meeting over batch-norms (trainer.c). */
size_t dpti_trainer_part_size(const dpt_trainer *trainer);
/* At the trainer's end: releases what lost devices hold, where they can be called. */
void dpti_trainer_tidy_lost(dpt_trainer *trainer);
/* The rows of a split for those that are left: equal ones, or in their proportions; equal ones,
   too, if these are all zero; none where nobody is left.  Any batch and any split. */
void dpti_trainer_split_left(const dpt_trainer *trainer, const dpti_split *split, size_t n_rows,
                             size_t *rows);
void dpti_trainer_note_event(dpt_trainer *trainer, dpt_device_event_kind kind, size_t device,
                             const dpt_error *error);

/* Waits for everything in flight and forgets it: the next step is the first that is not done
   (flights.c). */
void dpti_trainer_drain(dpt_trainer *trainer);

/* Records a failure of one device in the context, the device named. */
dpt_status dpti_trainer_fail(dpt_trainer *trainer, const dpti_device *device,
                             const dpt_error *error);
/* DPT_E_INVALID if a pointer that `call` needs is NULL; `what` is its name in dptrain.h. */
DPT_CHECK_RESULT dpt_status dpti_trainer_given(dpt_trainer *trainer, const char *call,
                                               const char *what, const void *pointer);
/* Whether `call` may be made now, each DPT_E_STATE.  outside_fit: what trains may not where dpt_fit
   calls back.  idle: what reads what devices hold may not with steps in flight, and where dpt_fit
   calls back only behind an epoch.  at_rest: what changes what training goes on from is held to
   both. */
DPT_CHECK_RESULT dpt_status dpti_trainer_outside_fit(dpt_trainer *trainer, const char *call);
DPT_CHECK_RESULT dpt_status dpti_trainer_idle(dpt_trainer *trainer, const char *call);
DPT_CHECK_RESULT dpt_status dpti_trainer_check_idle(dpt_trainer *trainer, const char *call);

#endif
