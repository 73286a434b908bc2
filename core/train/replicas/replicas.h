/* Copying the training state between replicas; nothing in flight.  A device that fails at it is not
   lost here (recover.h). */
#ifndef DPTI_REPLICAS_H
#define DPTI_REPLICAS_H

#include "dptrain.h"
#include "train/state/replicas_state.h"

typedef struct dpt_trainer dpt_trainer;
typedef struct dpti_worker dpti_worker;

/* Whether a worker's replica is to be restored: it is stale, and its device is not lost; devices on
   standby count with `standby` alone. */
bool dpti_replica_is_due(const dpti_worker *worker, bool standby);
/* Allocates the buffers of the training state, which the caller frees.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_replica_make_flats(dpt_trainer *trainer,
                                                    float *flats[DPTI_MAX_STATE_BUFFERS]);
/* Reads n_kinds buffers of one replica. */
DPT_CHECK_RESULT dpt_status dpti_replica_read(dpt_trainer *trainer, size_t rank, size_t n_kinds,
                                              float *const *flats);
/* Reads what files hold of n_kinds buffers of one replica. */
DPT_CHECK_RESULT dpt_status dpti_replica_read_saved(dpt_trainer *trainer, size_t rank,
                                                    size_t n_kinds, float *const *flats);
/* Reads the training state of worker *from.  Where that device is short of memory another valid
   replica serves, and *from becomes its worker.  Where the optimizer's state is in parts, it is
   read from the mirror. */
DPT_CHECK_RESULT dpt_status dpti_replica_read_source(dpt_trainer *trainer, size_t *from,
                                                     float *const *flats);
/* Copies the state of worker `from` to all workers that are due.  All of it is read before anything
   is written, so that a device that is lost meanwhile leaves no replica with parts.  Another
   replica serves where the source is short of memory.  The first failure is returned, *failing is
   its worker, and the context tells; other replicas are restored. */
DPT_CHECK_RESULT dpt_status dpti_replica_copy_to_stale(dpt_trainer *trainer, size_t from,
                                                       bool standby, size_t *failing);

#endif
