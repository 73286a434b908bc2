/* The buffers of the training state in host memory, and whether the training state can be trusted.

   A flat buffer of parameters is (flat_size) float32; one of gradients, or of optimizer state, is
   (flat_gradients) float32. */
#ifndef DPTI_STATE_BUFFERS_H
#define DPTI_STATE_BUFFERS_H

#include "dptrain.h"
#include "train/state/replicas_state.h"

typedef struct dpt_trainer dpt_trainer;
typedef struct dpti_worker dpti_worker;

/* How many buffers the training state has, and the i-th one's kind. */
size_t dpti_trainer_n_state_buffers(const dpt_trainer *trainer);
dpt_tensor_kind dpti_state_buffer_kind(size_t i);
/* The elements of a flat buffer of a kind. */
size_t dpti_state_elements(const dpt_trainer *trainer, dpt_tensor_kind kind);
/* The first so many elements of it are in files: of the parameters of a model with adapters, those
   without the base. */
size_t dpti_saved_elements(const dpt_trainer *trainer, dpt_tensor_kind kind);
/* A flat buffer of zeros in host memory, of (flat_size) elements for any kind; NULL without memory,
 * which the context tells. */
float *dpti_trainer_make_flat(dpt_trainer *trainer);
void dpti_trainer_free_state_buffers(float *flats[DPTI_MAX_STATE_BUFFERS]);
/* The first worker whose replica is valid, though its device may be lost; n_workers: none.  Where
   the optimizer's state is in parts, and no replica is valid, it is the first device in service:
   the mirror is valid. */
size_t dpti_trainer_trusted(const dpt_trainer *trainer);

/* Whether no replica holds the training state any more, so that nothing can be trained. */
bool dpti_state_is_lost(const dpt_trainer *trainer);
/* Sets that. */
void dpti_state_set_lost(dpt_trainer *trainer, bool lost);
/* DPT_E_STATE if no replica holds the training state. */
DPT_CHECK_RESULT dpt_status dpti_state_check(dpt_trainer *trainer);
/* With several processes a step has failed, and no replica can be restored from another process: no
   replica holds the training state from now on. */
void dpti_state_give_up(dpt_trainer *trainer);
/* Takes the training state into host memory, since no device holds it any more; the caller's
   pointers become NULL. */
void dpti_state_keep(dpt_trainer *trainer, float *flats[DPTI_MAX_STATE_BUFFERS]);
void dpti_state_free(dpt_trainer *trainer); /* frees it, if it is there */
/* Whether the training state is in host memory: it was kept, or it is in parts with a mirror. */
bool dpti_state_is_kept(const dpt_trainer *trainer);
/* Copies what files hold of the first n_kinds buffers of the training state in host memory, which
   must be there. */
void dpti_state_copy_kept(const dpt_trainer *trainer, size_t n_kinds, float *const *flats);
/* Sets, and tells, whether a read takes what the host can see of a lost device's replica. */
void dpti_state_salvage(dpt_trainer *trainer, bool salvage);
bool dpti_state_is_salvaged(const dpt_trainer *trainer);
/* [driver] Notes where in host memory the replica's buffers are, if the host sees them; forgets
   that. */
void dpti_state_note_views(dpti_worker *worker);
void dpti_state_forget_views(dpti_worker *worker);

/* The step at which the optimizer's state was zero, and the batches that running statistics had
   seen before step 1, modulo 2^64. */
typedef struct dpti_state_origin {
    size_t optimizer, batches;
} dpti_state_origin;
dpti_state_origin dpti_state_get_origin(const dpt_trainer *trainer);
void dpti_state_set_origin(dpt_trainer *trainer, dpti_state_origin origin);

#endif
