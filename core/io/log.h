/* The run log: JSON Lines, one event a line, flushed line by line (docs/log.md lists the events).
   Also reads back the shares that an earlier log records. */
#ifndef DPTI_LOG_H
#define DPTI_LOG_H

#include "base/recorded.h"
#include "device/device.h"
#include "dptrain.h"

typedef struct dpti_log dpti_log;

/* Creates or truncates.  DPT_E_IO and DPT_E_STATE as of dpti_output_open. */
DPT_CHECK_RESULT dpt_status dpti_log_open(const char *path, dpti_log **out, dpt_error *error);
/* Closes; DPT_E_IO if anything could not be written (a full disk).  Accepts NULL. */
DPT_CHECK_RESULT dpt_status dpti_log_close(dpti_log *log, dpt_error *error);

/* Goes on with the log of the run that a checkpoint is of: what is behind its step (and behind the
   epochs that were complete then) is cut off, and the end that an earlier `done` marked.  A file
   that is not there, or empty, is created, and *begun says false: it has no run event yet.
   DPT_E_INVALID: the log of another run; DPT_E_FORMAT: no log at all.  *last is the last step that
   the log has. */
typedef struct dpti_log_position {
    size_t step, epoch; /* of the checkpoint: steps done; the epoch that the next step belongs to */
    size_t batch_size;
    uint64_t seed;
} dpti_log_position;
DPT_CHECK_RESULT dpt_status dpti_log_resume(const char *path, const dpti_log_position *position,
                                            dpti_log **out, bool *begun, size_t *last,
                                            dpt_error *error);

/* Where to cut (replay.c): *n_kept bytes of the file stay, 0 if it is not there or has no line. */
DPT_CHECK_RESULT dpt_status dpti_log_find(const char *path, const dpti_log_position *position,
                                          size_t *n_kept, size_t *last, dpt_error *error);
/* The same from a text in memory; `name` stands in messages. */
DPT_CHECK_RESULT dpt_status dpti_log_find_in(const char *name, const char *text, size_t length,
                                             const dpti_log_position *position, size_t *n_kept,
                                             size_t *last, dpt_error *error);

/* Tells, in order, of the steps and epochs that a log has (recall.c): of a step its number, epoch,
   loss, shares and whether they are new, of an epoch the accuracies.  Steps of another number of
   devices are passed over, and whatever is no such line.  Both functions return false where there
   is no memory, which is DPT_E_NO_MEMORY here. */
typedef struct dpti_log_listener {
    size_t n_devices;
    bool (*step)(void *user, const dpt_step_metrics *step);
    bool (*epoch)(void *user, const dpt_epoch_metrics *epoch);
    void *user;
} dpti_log_listener;
DPT_CHECK_RESULT dpt_status dpti_log_recall(const char *path, const dpti_log_listener *listener,
                                            dpt_error *error);
/* The same from a text in memory. */
DPT_CHECK_RESULT bool dpti_log_recall_in(const char *text, size_t length,
                                         const dpti_log_listener *listener);

/* How gradients travel: sizes in bytes, 0 where there are no buckets. */
typedef struct dpti_log_exchange {
    size_t first_bucket, bucket;
    bool measured; /* what a sum over processes takes, and how it travels: */
    double alpha, beta;
    const char *route;
    size_t window;
} dpti_log_exchange;

/* One of the options that a training is made with, in words. */
typedef struct dpti_log_setting {
    const char *name, *value;
} dpti_log_setting;

typedef struct dpti_log_run {
    const char *model;
    size_t parameters, batch_size; /* samples of a step, */
    size_t accumulate;             /* in so many batches */
    bool compress;                 /* exchanges between processes, to bfloat16 */
    uint64_t seed;
    const char *dataset, *split;
    size_t n_settings;
    const dpti_log_setting *settings; /* (n_settings), of a run; 0: not told */
    size_t n_devices;
    const dpt_device_description *devices;
    const bool *streamed;      /* (n_devices) which get their data with each step; NULL: none */
    const size_t *pass_limits; /* (n_devices) most samples that it computes at once, SIZE_MAX: no
                                  limit; NULL: not told */
    size_t n_processes;
    const double *delays; /* (n_processes) seconds, of what each receives; NULL: none */
    const dpti_log_exchange *exchange; /* NULL: there is none */
} dpti_log_run;

/* Each writes one line and flushes it.  DPT_E_IO when it cannot. */
DPT_CHECK_RESULT dpt_status dpti_log_write_run(dpti_log *log, const dpti_log_run *run,
                                               dpt_error *error);
/* resume: from `step` on in another process, on the run's devices and split. */
DPT_CHECK_RESULT dpt_status dpti_log_write_resume(dpti_log *log, const dpti_log_run *run,
                                                  size_t step, dpt_error *error);
/* choices: the algorithms of one device's operations. */
DPT_CHECK_RESULT dpt_status dpti_log_write_choices(dpti_log *log, size_t device,
                                                   const dpti_recorded_choices *choices,
                                                   dpt_error *error);
DPT_CHECK_RESULT dpt_status dpti_log_write_step(dpti_log *log, const dpt_step_metrics *step,
                                                dpt_error *error);
/* rebalance: the step's shards, throughput and reason.  Only for steps that have one. */
DPT_CHECK_RESULT dpt_status dpti_log_write_rebalance(dpti_log *log, const dpt_step_metrics *step,
                                                     dpt_error *error);
/* device_lost and its like. */
DPT_CHECK_RESULT dpt_status dpti_log_write_device_event(dpti_log *log,
                                                        const dpt_device_event *event,
                                                        dpt_error *error);
/* rewind: steps from `step` to `until` are done again. */
DPT_CHECK_RESULT dpt_status dpti_log_write_rewind(dpti_log *log, size_t step, size_t until,
                                                  dpt_error *error);
DPT_CHECK_RESULT dpt_status dpti_log_write_epoch(dpti_log *log, const dpt_epoch_metrics *epoch,
                                                 dpt_error *error);
/* checkpoint: one that is durable, and what it has cost. */
typedef struct dpti_log_checkpoint {
    size_t step, bytes;
    double stopped;   /* s that training stood still, while the state was copied */
    double written;   /* s that a thread took to write, sync and rename it meanwhile, */
    double processor; /* and the processor time in them */
} dpti_log_checkpoint;
DPT_CHECK_RESULT dpt_status dpti_log_write_checkpoint(dpti_log *log,
                                                      const dpti_log_checkpoint *checkpoint,
                                                      dpt_error *error);
/* done: steps, seconds, images_per_second, test_accuracy, best_epoch and
   best_validation_loss (null if none), what every device has done and what all came to together,
   peak_rss_bytes (taken here from getrusage). */
typedef struct dpti_log_done {
    const dpt_fit_result *result;
    size_t n_devices;
    const dpt_device_report *devices;
    dpt_mix_report mix;
} dpti_log_done;

DPT_CHECK_RESULT dpt_status dpti_log_write_done(dpti_log *log, const dpti_log_done *done,
                                                dpt_error *error);

/* The shares of an earlier run, shards[(step - 1) * n_devices + device], and the algorithms that
   its devices took. */
typedef struct dpti_replay {
    size_t n_steps, n_devices, batch_size;
    size_t *shards;
    char *model;                    /* empty if the log does not say */
    char **backends;                /* (n_devices) likewise */
    size_t *at_once;                /* (n_devices) most samples that it computed at once, SIZE_MAX:
                                       no limit; 0: it is to choose */
    dpti_recorded_choices *choices; /* (n_devices) */
    size_t changed_step; /* the first that was done behind a resume with another backend, at_once or
                            choices of a device; 0: none was */
    size_t changed_device;
} dpti_replay;

/* Reads the run, choices and step events of a log; other events and other keys are passed over, and
   so is a last line that a killed run left unfinished.  DPT_E_FORMAT names file and line: no JSON,
   a step that is missing or out of order, shards that do not add up to the step's samples, choices
   that are no three words each, no run event, no step. */
DPT_CHECK_RESULT dpt_status dpti_replay_read(const char *path, dpti_replay *out, dpt_error *error);
/* The same from a text in memory; `name` stands in messages. */
DPT_CHECK_RESULT dpt_status dpti_replay_parse(const char *name, const char *text, size_t length,
                                              dpti_replay *out, dpt_error *error);
/* The device is another one, and chooses for itself, also how much it computes at once. */
void dpti_replay_forget_choices(dpti_replay *replay, size_t device);
void dpti_replay_free(dpti_replay *replay);

#endif
