/* The training state: parameters and optimizer state.  Reading and writing it. */
#ifndef DPTI_STATE_H
#define DPTI_STATE_H

#include "dptrain.h"
#include "train/state/replicas_state.h"

typedef struct dpt_trainer dpt_trainer;
typedef struct dpti_worker dpti_worker;

/* In these functions a flat buffer has dpti_state_elements float32, and a failure is in the
   context.  A read changes no elements behind these. */

/* Reads or writes one replica's flat buffer of a kind; nothing in flight. */
DPT_CHECK_RESULT dpt_status dpti_trainer_read(dpt_trainer *trainer, size_t rank,
                                              dpt_tensor_kind kind, float *flat);
DPT_CHECK_RESULT dpt_status dpti_trainer_write(dpt_trainer *trainer, size_t rank,
                                               dpt_tensor_kind kind, const float *flat);

/* Writes a flat buffer of a kind to the replicas of all devices that are not lost.  A replica that
   cannot be written is torn from then on; the first failure is returned. */
DPT_CHECK_RESULT dpt_status dpti_trainer_write_all(dpt_trainer *trainer, dpt_tensor_kind kind,
                                                   const float *flat);
/* Reads what files hold of one replica's flat buffer (dpti_saved_elements). */
DPT_CHECK_RESULT dpt_status dpti_trainer_read_saved(dpt_trainer *trainer, size_t rank,
                                                    dpt_tensor_kind kind, float *flat);
/* As dpti_trainer_write_all, but writes only what files hold. */
DPT_CHECK_RESULT dpt_status dpti_trainer_write_saved(dpt_trainer *trainer, dpt_tensor_kind kind,
                                                     const float *flat);
/* As dpti_trainer_adopt_state, but writes only what files hold.  All replicas must be valid. */
DPT_CHECK_RESULT dpt_status dpti_trainer_adopt_saved(dpt_trainer *trainer,
                                                     const float *const *flats);
/* Gives every device this training state (dpti_trainer_n_state_buffers flat buffers).  A replica
   that cannot be written is torn from then on; the first failure is returned. */
DPT_CHECK_RESULT dpt_status dpti_trainer_adopt_state(dpt_trainer *trainer,
                                                     const float *const *flats);
/* Gives every device new weights, and an optimizer state of zeros: `zeros` is a flat buffer of
   them.  `saved`: only what files hold, as dpti_trainer_adopt_saved. */
DPT_CHECK_RESULT dpt_status dpti_trainer_adopt(dpt_trainer *trainer, const float *weights,
                                               const float *zeros, bool saved);
/* Writes the training state to one replica. */
DPT_CHECK_RESULT dpt_status dpti_trainer_write_state_buffers(
    dpt_trainer *trainer, size_t rank, float *const flats[DPTI_MAX_STATE_BUFFERS]);

#endif
