/* The run log: JSON Lines, one event per line, flushed after each line. docs/log.md lists the
   events.  This header also declares the functions that read a log back, for resuming, plotting
   and replaying. */
#ifndef DPTI_LOG_H
#define DPTI_LOG_H

#include "base/bytes.h"
#include "base/recorded.h"
#include "dpt_error.h"
#include "dptrain.h"

typedef struct dpti_log dpti_log;

/* Creates or truncates a log.  Errors: DPT_E_IO and DPT_E_STATE as for dpti_output_open. */
DPT_CHECK_RESULT dpt_status dpti_log_open(const char *path, dpti_log **out, dpt_error *error);
/* Closes a log.  Accepts NULL.  Errors: DPT_E_IO if anything could not be written, for example
   because the disk is full. */
DPT_CHECK_RESULT dpt_status dpti_log_close(dpti_log *log, dpt_error *error);

/* Opens the log of the run that a checkpoint belongs to, to continue it.  Everything after the
   checkpoint's step, and after the epochs that were complete then, is cut off; so is the `done`
   event of an earlier end.  A missing or empty file is created, and begun is false: it has no run
   event yet.  Errors: DPT_E_INVALID for the log of another run;
   DPT_E_FORMAT for a file that is not a log. */
typedef struct dpti_log_position {
    size_t step,
        epoch; /* of the checkpoint: number of steps done, and the epoch of the next step */
    size_t batch_size;
    uint64_t seed;
} dpti_log_position;
typedef struct dpti_log_resumed {
    dpti_log *log;
    bool begun;                   /* the log has a run event */
    size_t last_step, last_epoch; /* in the log; 0: none */
} dpti_log_resumed;
DPT_CHECK_RESULT dpt_status dpti_log_resume(const char *path, const dpti_log_position *position,
                                            dpti_log_resumed *out, dpt_error *error);

/* Finds where to cut (replay.c). */
typedef struct dpti_log_cut {
    size_t n_kept; /* bytes of the file that are kept; 0 if the file is missing or has no line */
    size_t last_step, last_epoch; /* in these bytes; 0: none */
} dpti_log_cut;
DPT_CHECK_RESULT dpt_status dpti_log_find(const char *path, const dpti_log_position *position,
                                          dpti_log_cut *out, dpt_error *error);
/* Does the same for a text in memory; `name` is used in messages. */
DPT_CHECK_RESULT dpt_status dpti_log_find_in(const dpti_file_bytes *file,
                                             const dpti_log_position *position, dpti_log_cut *out,
                                             dpt_error *error);

/* Receives the steps and epochs of a log in order (recall.c): for a step its number, epoch, loss,
   rate, shards and whether the shards are new; for an epoch the losses and accuracies.  Steps with
   another number of devices, and all other lines, are skipped.  Both functions return false if
   there is no memory, which gives DPT_E_NO_MEMORY. */
typedef struct dpti_log_listener {
    size_t n_devices;
    bool (*step)(void *user, const dpt_step_metrics *step);
    bool (*epoch)(void *user, const dpt_epoch_metrics *epoch);
    void *user;
} dpti_log_listener;
DPT_CHECK_RESULT dpt_status dpti_log_recall(const char *path, const dpti_log_listener *listener,
                                            dpt_error *error);
/* Does the same for a text in memory. */
DPT_CHECK_RESULT bool dpti_log_recall_in(const char *text, size_t length,
                                         const dpti_log_listener *listener);

/* How gradients are exchanged.  Sizes are in bytes; 0 if there are no buckets. */
typedef struct dpti_log_exchange {
    size_t first_bucket, bucket;
    bool measured; /* the cost of a sum over processes was measured; if so: */
    double alpha, beta;
    const char *route;
    size_t window;
} dpti_log_exchange;

/* One option of a training, as text. */
typedef struct dpti_log_setting {
    const char *name, *value;
} dpti_log_setting;

typedef struct dpti_log_run {
    const char *model;
    size_t parameters, batch_size; /* number of parameters; samples of a step */
    size_t accumulate;             /* batches of a step */
    const char *compress;          /* the format of exchanges between processes; NULL: float32 */
    size_t compress_rank;          /* of the matrices that travel; 0: elements do */
    const char *shard;             /* what devices hold in parts; NULL: nothing */
    bool offload;                  /* CPUs hold the parts */
    const char *chosen;            /* the options that --shard auto chose; NULL: it was not given */
    size_t local_steps;            /* steps of a round; 0: processes share each step */
    size_t outer_delay;            /* steps behind which the outer step is taken; 0: at once */
    size_t outer_fragments;        /* of the parameters; 0 or 1: exchanged as a whole */
    uint64_t seed;
    const char *dataset, *split;
    size_t n_settings;
    const dpti_log_setting *settings; /* (n_settings) of a run; 0: not recorded */
    size_t n_devices;
    const dpt_device_info *devices;
    const bool *streamed; /* (n_devices) which devices get their data with each step; NULL: none */
    const size_t *micro_batch_limits; /* (n_devices) largest number of samples that each device
                                  computes at once, SIZE_MAX: no limit; NULL: not recorded */
    size_t n_processes;
    const char *transport; /* its name; NULL: one process */
    bool survives;         /* the training goes on when a process has died */
    const double
        *delays; /* (n_processes) delay in seconds of what each process receives; NULL: none */
    const dpti_log_exchange *exchange; /* NULL: no exchange */
} dpti_log_run;

/* The following functions write one line each and flush it.  Errors: DPT_E_IO. */
DPT_CHECK_RESULT dpt_status dpti_log_write_run(dpti_log *log, const dpti_log_run *run,
                                               dpt_error *error);
/* Writes `resume`: from `step` on another process trains, on the run's devices and with its
   split. */
DPT_CHECK_RESULT dpt_status dpti_log_write_resume(dpti_log *log, const dpti_log_run *run,
                                                  size_t step, dpt_error *error);
/* Writes `algorithms`: those of the operations of one device. */
DPT_CHECK_RESULT dpt_status dpti_log_write_choices(dpti_log *log, size_t device,
                                                   const dpti_recorded_choices *choices,
                                                   dpt_error *error);
DPT_CHECK_RESULT dpt_status dpti_log_write_step(dpti_log *log, const dpt_step_metrics *step,
                                                dpt_error *error);
/* Writes `rebalance`: the shards, the throughput and the reason.  Only for steps that have a
   reason. */
DPT_CHECK_RESULT dpt_status dpti_log_write_rebalance(dpti_log *log, const dpt_step_metrics *step,
                                                     dpt_error *error);
/* Writes an event of a device, such as `device_lost`. */
/* The name of a device event in the log, such as "device_lost". */
const char *dpti_log_event_name(dpt_device_event_kind kind);
DPT_CHECK_RESULT dpt_status dpti_log_write_device_event(dpti_log *log,
                                                        const dpt_device_event *event,
                                                        dpt_error *error);
/* Writes `rewind`: the steps from `step` to `until` are retried. */
DPT_CHECK_RESULT dpt_status dpti_log_write_rewind(dpti_log *log, size_t step, size_t until,
                                                  dpt_error *error);
DPT_CHECK_RESULT dpt_status dpti_log_write_epoch(dpti_log *log, const dpt_epoch_metrics *epoch,
                                                 dpt_error *error);
/* The event `checkpoint`: a checkpoint is durable, with its cost. */
typedef struct dpti_log_checkpoint {
    size_t step, bytes;
    double stopped;   /* seconds that training waited while the state was copied */
    double written;   /* seconds that a thread took to write, sync and rename the file */
    double processor; /* processor time in these seconds */
} dpti_log_checkpoint;
DPT_CHECK_RESULT dpt_status dpti_log_write_checkpoint(dpti_log *log,
                                                      const dpti_log_checkpoint *checkpoint,
                                                      dpt_error *error);
/* The event `done`: steps, seconds, images_per_second, test_accuracy, best_epoch and
   best_validation_loss (null if there is none), the reports of each device and of all devices, and
   peak_rss_bytes (from getrusage). */
typedef struct dpti_log_done {
    const dpt_fit_result *result;
    size_t n_devices;
    const dpt_device_report *devices;
    dpt_mix_report mix;
} dpti_log_done;

DPT_CHECK_RESULT dpt_status dpti_log_write_done(dpti_log *log, const dpti_log_done *done,
                                                dpt_error *error);

/* The shards of an earlier run, shards[(step - 1) * n_devices + device], and the algorithms of its
   devices. */
typedef struct dpti_replay {
    size_t n_steps, n_devices, batch_size;
    size_t *shards;
    char *model;     /* empty if the log does not record it */
    char **backends; /* (n_devices) empty if the log does not record them */
    size_t *at_once; /* (n_devices) largest number of samples that the device computed at once;
                        SIZE_MAX: no limit; 0: the device chooses */
    dpti_recorded_choices *choices; /* (n_devices) */
    size_t changed_step; /* the first step after a resume in which a device had another backend,
                            at_once or other choices; 0: none */
    size_t changed_device;
} dpti_replay;

/* Reads the run, algorithms (in older logs: choices) and step events of a log.  Other events and
   keys are skipped, and so is an incomplete last line of a killed run.  Errors: DPT_E_FORMAT with
   file and line: a line that is not JSON, a missing step or one out of order, shards that do not
   add up to the samples of the step, choices that are not three words each, no run event, no step.
 */
DPT_CHECK_RESULT dpt_status dpti_replay_read(const char *path, dpti_replay *out, dpt_error *error);
/* Does the same for a text in memory; `name` is used in messages. */
DPT_CHECK_RESULT dpt_status dpti_replay_parse(const dpti_file_bytes *file, dpti_replay *out,
                                              dpt_error *error);
/* Forgets a device's choices, because the device has changed: it chooses its algorithms, and how
   much it computes at once, anew. */
void dpti_replay_forget_choices(dpti_replay *replay, size_t device);
void dpti_replay_free(dpti_replay *replay);

#endif
