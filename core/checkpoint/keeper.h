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

/* Holds the folder, removes what killed runs left behind in the middle of a write, takes memory for
   a snapshot and starts the thread.  The context's error tells. */
DPT_CHECK_RESULT dpt_status dpti_keeper_create(dpt_trainer *trainer, const char *folder,
                                               size_t n_kept, dpti_keeper **out);
/* Waits for a write under way.  What begin_new has set aside gets its names back, if no checkpoint
   has become durable.  Accepts NULL. */
void dpti_keeper_destroy(dpti_keeper *keeper);

/* What is worth telling on the way: a checkpoint that is passed over, and why. */
typedef void dpti_keeper_tell(const char *text, void *user);

/* The newest sound checkpoint.  DPT_E_NOT_FOUND if the folder has none at all; DPT_E_FORMAT if it
   has some and none is sound, DPT_E_IO if they might be and cannot be read; DPT_E_INVALID if the
   newest sound one is of another training, or if there are only those that were set aside.  From
   then on those up to this one count as the keeper's own. */
DPT_CHECK_RESULT dpt_status dpti_keeper_newest(dpti_keeper *keeper, dpti_keeper_tell *tell,
                                               void *user, dpti_checkpoint *out);
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
/* Takes a snapshot and hands it to the thread.  The keeper must be idle and no step in flight. */
DPT_CHECK_RESULT dpt_status dpti_keeper_keep(dpti_keeper *keeper, const dpti_run_state *course);
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
/* Returns the newest durable checkpoint of this training; 0: none.  The keeper must be idle. */
size_t dpti_keeper_last(const dpti_keeper *keeper);

#endif
