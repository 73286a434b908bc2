/* A trainer's whole state: taken from the devices into host memory, written to a file by any
   thread, read back, and given to a trainer. */
#ifndef DPTI_SNAPSHOT_H
#define DPTI_SNAPSHOT_H

#include "checkpoint/origin.h"
#include "checkpoint/run_state.h"
#include "io/safetensors.h"
#include "train/trainer.h"

/* ---- Taking and writing ---------------------------------------------------------------------- */

typedef struct dpti_snapshot {
    const dpt_model *model; /* outlives it */
    size_t n_kinds;
    float *
        flats[DPTI_MAX_STATE_BUFFERS]; /* (flat_size) each; a file's layout once they are written */
    size_t n_owing;                    /* processes whose error feedback it has, 0: there is none */
    float *residual;                   /* (n_owing, flat_size) likewise */
    int64_t batches;
    size_t step;
    dpti_origin origin;
    double seconds; /* that taking it took: training stood still for so long */
    char *state;    /* encoded; NULL: nothing is taken */
} dpti_snapshot;

/* Memory for as much as the trainer holds on one device.  The context's error tells. */
DPT_CHECK_RESULT dpt_status dpti_snapshot_create(dpt_trainer *trainer, dpti_snapshot *out);
void dpti_snapshot_free(dpti_snapshot *snapshot); /* accepts a zeroed one; zeroes it */
/* Nothing in flight.  In a course: its counts and settings, else NULL both.  Where sums over
   processes are packed all take part: the first one takes, the others bring what they owe. */
DPT_CHECK_RESULT dpt_status dpti_snapshot_take(dpt_trainer *trainer, const dpti_run_state *course,
                                               dpti_snapshot *snapshot);
DPT_CHECK_RESULT dpt_status dpti_snapshot_send(dpt_trainer *trainer); /* else nothing */
/* Any thread; the snapshot is used up. */
DPT_CHECK_RESULT dpt_status dpti_snapshot_write(dpti_snapshot *snapshot, const char *path,
                                                dpt_error *error);

/* ---- Reading --------------------------------------------------------------------------------- */

/* A checkpoint that fits the trainer: all of it is checked, and nothing of the trainer changed. */
typedef struct dpti_checkpoint {
    char *path;
    float *flats[DPTI_MAX_STATE_BUFFERS];
    /* Error feedback, where the trainer packs and the file has any (state.n_owing): of all the
       trainer's processes (flat_size) each, where it was read; in the others' NULL; and this one's
       once it is dealt. */
    float *all_residuals, *residual;
    dpti_run_state state;
} dpti_checkpoint;

/* DPT_E_FORMAT, DPT_E_IO, DPT_E_NOT_FOUND: there is no sound checkpoint there.  DPT_E_INVALID: it
   is of another training, the setting named.  The context's error tells. */
DPT_CHECK_RESULT dpt_status dpti_checkpoint_open(dpt_trainer *trainer, const char *path,
                                                 dpti_checkpoint *out);
void dpti_checkpoint_close(dpti_checkpoint *checkpoint); /* accepts a zeroed one; zeroes it */
/* As bytes for the same program in another process, to be freed; NULL without memory.  And back;
   false without memory. */
uint8_t *dpti_checkpoint_pack(const dpt_trainer *trainer, const dpti_checkpoint *checkpoint,
                              size_t *n_bytes);
DPT_CHECK_RESULT bool dpti_checkpoint_unpack(const dpt_trainer *trainer, const uint8_t *bytes,
                                             dpti_checkpoint *out);
/* DPT_E_INVALID, the setting and both values named, if settings differ from the checkpoint's. */
DPT_CHECK_RESULT dpt_status dpti_checkpoint_compare(dpt_trainer *trainer,
                                                    const dpti_checkpoint *checkpoint,
                                                    const dpti_settings *settings);
/* Gives each process its part of the error feedback that the first one has read: as many processes
   as in the file get their own again; of another number the first gets the sum of all, so that
   nothing is lost. */
DPT_CHECK_RESULT dpt_status dpti_checkpoint_deal(dpt_trainer *trainer, dpti_checkpoint *checkpoint);
/* More bytes than any checkpoint of the trainer's model has, weights alone or the whole state; of
   this file, if it says of how many processes it has error feedback, and of how many devices the
   algorithms. */
size_t dpti_checkpoint_most_bytes(const dpt_trainer *trainer, const char *path);
/* Whether a file is the sound checkpoint of a course, of any training, that came to its end; one of
   more than max_bytes is not read, and is none.  *error (or NULL) says why it could not be read. */
bool dpti_checkpoint_ended(const char *path, size_t max_bytes, dpt_error *error);
/* The trainer goes on from there; nothing in flight.  A device that fails meanwhile is treated as
   by dpt_trainer_set. */
DPT_CHECK_RESULT dpt_status dpti_checkpoint_apply(dpt_trainer *trainer,
                                                  const dpti_checkpoint *checkpoint);

#endif
