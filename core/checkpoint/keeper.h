/* The checkpoints of a folder: they are written in the background, one at a time, and the newest
   few are kept.  Also the choice of the checkpoint to resume from.

   The caller's thread takes a snapshot while nothing is being written, and hands it over.  A
   thread of the keeper writes the snapshot, and deletes older checkpoints after the new one is
   durable. */
#ifndef DPTI_KEEPER_H
#define DPTI_KEEPER_H

#include "checkpoint/snapshot.h"
#include "io/log.h"

typedef struct dpti_keeper dpti_keeper;

/* Locks the folder, removes the temporary files of killed runs, allocates memory for a snapshot
   and starts the thread.  A training that goes on without a process that is left behind
   (base/fence.h), and that may have the lock, does without.  The context has the error. */
DPT_CHECK_RESULT dpt_status dpti_keeper_create(dpt_trainer *trainer, const char *folder,
                                               size_t n_kept, dpti_keeper **out);
/* The same for a folder in memory (fit/copies.h), of which the newest checkpoint is kept. Snapshots
   are those of this process alone (dpti_snapshot.alone).  The checkpoints in the folder belong to
   the keeper.  DPT_E_STATE: another process keeps them. */
DPT_CHECK_RESULT dpt_status dpti_keeper_create_copies(dpt_trainer *trainer, const char *folder,
                                                      dpti_keeper **out);
/* Waits for the write in progress.  If no checkpoint has become durable, the files that
   dpti_keeper_begin_new has renamed get their names back.  Accepts NULL. */
void dpti_keeper_destroy(dpti_keeper *keeper);

/* Receives messages, such as a checkpoint that is skipped and the reason. */
typedef void dpti_keeper_tell(const char *text, void *user);

/* Finds the newest valid checkpoint.  The checkpoints up to this one then belong to the keeper.
   Errors: DPT_E_NOT_FOUND if the folder has no checkpoint; DPT_E_FORMAT if no checkpoint is valid;
   DPT_E_IO if checkpoints cannot be read and may be valid; DPT_E_INVALID if the newest valid
   checkpoint belongs to another training, or all checkpoints are renamed ones. */
DPT_CHECK_RESULT dpt_status dpti_keeper_newest(dpti_keeper *keeper, dpti_keeper_tell *tell,
                                               void *user, dpti_checkpoint *out);
/* Opens the newest checkpoint of the keeper, which has one; the keeper is idle.  *sound: false if
   it is not valid; it is deleted then, and the context tells why.  Errors: DPT_E_INVALID if it
   belongs to another training; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_keeper_open_last(dpti_keeper *keeper, bool *sound,
                                                  dpti_checkpoint *out);
/* The checkpoints in the folder are those of this training, which goes on without reading them. */
DPT_CHECK_RESULT dpt_status dpti_keeper_adopt(dpti_keeper *keeper);
/* Errors: DPT_E_INVALID if the folder has checkpoints of a training that did not end, which a new
   training would replace; DPT_E_IO if they cannot be read. */
DPT_CHECK_RESULT dpt_status dpti_keeper_check_new(dpti_keeper *keeper);

/* Renames the checkpoints and the best weights of a training that has ended, until the first
   checkpoint of the new training is durable.  So a resume before that time does not use the old
   ones. *ended: the last step of the old training; 0: there is none. */
DPT_CHECK_RESULT dpt_status dpti_keeper_begin_new(dpti_keeper *keeper, size_t *ended);

/* Returns whether nothing is being written. */
bool dpti_keeper_idle(dpti_keeper *keeper);
/* Waits until nothing is being written. */
void dpti_keeper_wait(dpti_keeper *keeper);
/* Takes a snapshot and hands it to the thread.  The keeper must be idle and no step in flight.
   `revocable`: the checkpoint may be revoked.  It replaces older ones, and the renamed files of an
   earlier training, only when the next one is durable or the keeper is destroyed. */
DPT_CHECK_RESULT dpt_status dpti_keeper_keep(dpti_keeper *keeper, const dpti_run_state *course,
                                             bool revocable);
/* Deletes the newest checkpoint, if it is revocable.  The keeper must be idle. */
void dpti_keeper_revoke(dpti_keeper *keeper);
/* Hands over a snapshot that was taken before, and returns memory for another one in exchange.
   The keeper must be idle. */
void dpti_keeper_keep_copy(dpti_keeper *keeper, dpti_snapshot *copy);
/* Returns the failure of the last write that has ended, once; DPT_OK if there is nothing new. */
dpt_status dpti_keeper_failure(dpti_keeper *keeper, dpt_error *error);
/* Returns the cost of the last write that has ended, once, if its checkpoint is durable; false if
   there is nothing new. */
bool dpti_keeper_kept(dpti_keeper *keeper, dpti_log_checkpoint *out);
/* Returns whether the checkpoint of the last write that has ended is durable. */
bool dpti_keeper_durable(dpti_keeper *keeper);
/* Returns whether this training has a durable checkpoint.  The keeper must be idle. */
bool dpti_keeper_has_any(const dpti_keeper *keeper);
/* Returns the newest durable checkpoint of this training; 0: none.  The keeper must be idle. */
size_t dpti_keeper_last(const dpti_keeper *keeper);

#endif
