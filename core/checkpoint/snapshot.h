/* The whole state of a trainer.  It is copied from the devices into host memory, written to a file
   by any thread, read back, and loaded into a trainer. */
#ifndef DPTI_SNAPSHOT_H
#define DPTI_SNAPSHOT_H

#include "checkpoint/origin.h"
#include "checkpoint/run_state.h"
#include "io/safetensors.h"
#include "train/state/trainer.h"

/* ---- Taking and writing ---------------------------------------------------------------------- */

typedef struct dpti_snapshot {
    const dpt_model *model; /* outlives the snapshot */
    size_t n_kinds;
    float *flats[DPTI_MAX_STATE_BUFFERS]; /* (flat_size) each, of which the optimizer's state has
                                             (flat_gradients); in the layout of a file after
                                             writing */
    size_t n_owing;  /* processes whose error feedback the snapshot holds; 0: none */
    float *residual; /* (n_owing, flat_gradients) error feedback, in the same layout */
    float *outer;    /* (flat_size) the outer velocity of local steps, likewise; NULL: none */
    float *factors;  /* (flat_size) those with which the next step begins, likewise; NULL: none */
    int64_t batches;
    size_t step;
    dpti_origin origin;
    double seconds; /* seconds that taking the snapshot took; training waited this long */
    char *state;    /* the encoded run state; NULL: the snapshot is empty */
    bool alone;     /* taken by this process alone, without error feedback */
} dpti_snapshot;

/* Allocates memory for as much as the trainer holds on one device.  *out is zero before, but for
   `alone`, which stays.  The context has the error. */
DPT_CHECK_RESULT dpt_status dpti_snapshot_create(dpt_trainer *trainer, dpti_snapshot *out);
void dpti_snapshot_free(dpti_snapshot *snapshot); /* accepts a zeroed struct; sets it to zero */
/* Takes a snapshot; no step may be in flight.  Within dpt_fit: its counts and settings; otherwise
   both are NULL.  If sums over processes are compressed, and the snapshot is not `alone`, all
   processes take part: process 0 takes the snapshot, and the others send their error feedback with
   dpti_snapshot_send. */
DPT_CHECK_RESULT dpt_status dpti_snapshot_take(dpt_trainer *trainer, const dpti_run_state *course,
                                               dpti_snapshot *snapshot);
DPT_CHECK_RESULT dpt_status
dpti_snapshot_send(dpt_trainer *trainer); /* does nothing if sums are not compressed */
/* May be called by any thread.  The snapshot is used up. */
DPT_CHECK_RESULT dpt_status dpti_snapshot_write(dpti_snapshot *snapshot, const char *path,
                                                dpt_error *error);

/* ---- Reading --------------------------------------------------------------------------------- */

/* A checkpoint that fits the trainer.  All of it is checked, and the trainer is unchanged. */
typedef struct dpti_checkpoint {
    char *path;
    float *flats[DPTI_MAX_STATE_BUFFERS];
    /* Error feedback, if the trainer compresses and the file has error feedback (state.n_owing).
       all_residuals: that of all processes of the trainer (flat_gradients each) in the process that
       read the file, NULL in the others. residual: that of this process, after
       dpti_checkpoint_deal. */
    float *all_residuals, *residual;
    float *outer;   /* (flat_size) the outer velocity, if the trainer has one; else NULL */
    float *factors; /* (flat_size) those of low rank, if the trainer and the file have them */
    dpti_run_state state;
} dpti_checkpoint;

/* Errors: DPT_E_FORMAT, DPT_E_IO, DPT_E_NOT_FOUND if there is no valid checkpoint; DPT_E_INVALID
   if the checkpoint belongs to another training (the message names the setting).  The context has
   the error. */
DPT_CHECK_RESULT dpt_status dpti_checkpoint_open(dpt_trainer *trainer, const char *path,
                                                 dpti_checkpoint *out);
void dpti_checkpoint_close(
    dpti_checkpoint *checkpoint); /* accepts a zeroed struct; sets it to zero */
/* Takes the present training state, without error feedback, as a checkpoint that fits trainers of
   this model; `name` stands for its path.  No step is in flight.  Calls no other process. */
DPT_CHECK_RESULT dpt_status dpti_checkpoint_take(dpt_trainer *trainer, const dpti_run_state *course,
                                                 const char *name, dpti_checkpoint *out);
/* Packs a checkpoint into bytes for the same program in another process; the caller frees them.
   Returns NULL if there is no memory.  The second function unpacks; it returns false if there is
   no memory. */
uint8_t *dpti_checkpoint_pack(const dpt_trainer *trainer, const dpti_checkpoint *checkpoint,
                              size_t *n_bytes);
DPT_CHECK_RESULT bool dpti_checkpoint_unpack(const dpt_trainer *trainer, const uint8_t *bytes,
                                             dpti_checkpoint *out);
/* Errors: DPT_E_INVALID if a setting differs from the checkpoint's; the message names the setting
   and both values. */
DPT_CHECK_RESULT dpt_status dpti_checkpoint_compare(dpt_trainer *trainer,
                                                    const dpti_checkpoint *checkpoint,
                                                    const dpti_settings *settings);
/* Distributes the error feedback that process 0 has read.  If there are as many processes as in
   the file, each gets its own part.  Otherwise process 0 gets the sum of all parts, so that
   nothing is lost. */
DPT_CHECK_RESULT dpt_status dpti_checkpoint_deal(dpt_trainer *trainer, dpti_checkpoint *checkpoint);
/* Returns an upper bound of the size in bytes of any checkpoint of the trainer's model, with
   weights alone or with the whole state.  The bound takes into account how many processes' error
   feedback, and how many devices' algorithms, the file says it has. */
size_t dpti_checkpoint_most_bytes(const dpt_trainer *trainer, const char *path);
/* Returns whether a file is a valid checkpoint of a dpt_fit, of any training, that has ended.  A
   file of more than max_bytes is not read and gives false. *error (or NULL) says why the file
   could not be read. */
bool dpti_checkpoint_ended(const char *path, size_t max_bytes, dpt_error *error);
/* The trainer continues from the checkpoint; no step may be in flight.  A device that fails
   meanwhile is treated as by dpt_trainer_set. */
DPT_CHECK_RESULT dpt_status dpti_checkpoint_apply(dpt_trainer *trainer,
                                                  const dpti_checkpoint *checkpoint);

#endif
