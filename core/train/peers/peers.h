/* The devices of all processes, as a trainer sees them: what they are, and what came of their
   shards.  With one process its own devices are all.

   All processes call these functions alike and in the same order.  A result is the same in all
   processes, and so is whatever they decide by it. */
#ifndef DPTI_PEERS_H
#define DPTI_PEERS_H

#include "collective/processes.h"
#include "train/state/in_flight_step.h"

typedef struct dpt_trainer dpt_trainer;

/* Tells the other processes about this process's devices, and fills in n_devices, first_device and
   what is known about each device.  The context tells a failure: DPT_E_NO_MEMORY, too many devices,
   or of the transport. */
DPT_CHECK_RESULT dpt_status dpti_peers_meet(dpt_trainer *trainer);
void dpti_peers_free(dpt_trainer *trainer);

/* ---- What is known --------------------------------------------------------------------------- */

/* A device of any process. */
const dpti_peer *dpti_peers_device(const dpt_trainer *trainer, size_t device);
/* The record of one of this process's devices, to be filled in; and telling all processes what
   these records say.  tell fails as dpti_peers_gather does. */
dpti_peer *dpti_peers_own(dpt_trainer *trainer, size_t rank);
DPT_CHECK_RESULT dpt_status dpti_peers_tell(dpt_trainer *trainer, dpt_status mine);
/* (processes + 1) the first device of each process, then n_devices; NULL with one process. */
const size_t *dpti_peers_firsts(const dpt_trainer *trainer);
/* Whether a device is one of this process's; and its worker's rank, else DPT_E_INVALID. */
bool dpti_peers_is_own(const dpt_trainer *trainer, size_t device);
DPT_CHECK_RESULT dpt_status dpti_trainer_own_device(const dpt_trainer *trainer, size_t device,
                                                    size_t *rank);
/* DPT_E_INVALID if there is no such device. */
DPT_CHECK_RESULT dpt_status dpti_peers_check_device(const dpt_trainer *trainer, size_t device);
/* Whether all devices are of one backend, and none is listed twice, as far as UUIDs and PCI ids
   tell. */
bool dpti_peers_are_alike(const dpt_trainer *trainer);

/* ---- Agreeing -------------------------------------------------------------------------------- */

/* The first failure of any process, recorded in the context of each, the process named; DPT_OK if
   there is none.  `mine` is this process's, which its context tells.  A failure of a process that
   was let in and has not begun is its own (dpti_processes_end_alone). */
DPT_CHECK_RESULT dpt_status dpti_peers_agree(dpt_trainer *trainer, dpt_status mine);
/* The same, and every process gets the bytes that each contributes.  With several processes. */
DPT_CHECK_RESULT dpt_status dpti_peers_all_gather(dpt_trainer *trainer, dpt_status mine,
                                                  dpti_bytes data, dpti_gathered *out);
/* The same for (n_devices) items of item_bytes each, of which each process contributes those of its
   own devices. */
DPT_CHECK_RESULT dpt_status dpti_peers_gather(dpt_trainer *trainer, dpt_status mine, void *items,
                                              size_t item_bytes);
/* What the first process says, with nothing in flight, where all processes ask. */
DPT_CHECK_RESULT dpt_status dpti_peers_ask_first(dpt_trainer *trainer, unsigned mine,
                                                 unsigned *first);
/* The bits that any process gives, likewise. */
DPT_CHECK_RESULT dpt_status dpti_peers_ask_any(dpt_trainer *trainer, unsigned mine, unsigned *any);
/* The same, of bits from DPTI_RUN_REQUESTS on; and what the processes request (below) is agreed on,
   as behind a step. */
DPT_CHECK_RESULT dpt_status dpti_peers_ask_requests(dpt_trainer *trainer, unsigned mine,
                                                    unsigned *any);

/* Whether process `process` was let in and has not begun (dpti_processes_is_new), and is not this
   one.  If it differs from the others, it ends by itself: that is no failure of this process. */
bool dpti_peers_is_others_affair(const dpt_trainer *trainer, size_t process);

/* ---- Weights --------------------------------------------------------------------------------- */

/* The caller has written weights: processes compare them before they are used. */
void dpti_peers_note_written(dpt_trainer *trainer);
bool dpti_peers_have_written(const dpt_trainer *trainer);
/* They are compared. */
void dpti_peers_forget_written(dpt_trainer *trainer);
/* Whether processes took different steps, so that no process's weights can be trusted. */
bool dpti_peers_diverged(const dpt_trainer *trainer);
/* All processes have the same weights again. */
void dpti_peers_forget_diverged(dpt_trainer *trainer);

/* ---- Steps ----------------------------------------------------------------------------------- */

/* A device does not answer: turns this process's driver threads away that wait for it behind a
   step, until mend. */
void dpti_peers_break(dpt_trainer *trainer);
void dpti_peers_mend(dpt_trainer *trainer);

/* ---- Requests -------------------------------------------------------------------------------- */

/* Any thread: asks for something that all processes do, or none: with the next step that is
   collected, or the next call of ask_requests. */
void dpti_peers_request(dpt_trainer *trainer, dpti_run_request request);
/* The same with DPTI_RUN_REQUEST_STOP, for a cause from 1 to DPTI_RUN_CAUSES.  The first cause of
   this process holds. */
void dpti_peers_request_stop(dpt_trainer *trainer, unsigned cause);
/* What this process asks for; and what all have agreed on: dpti_run_request bits, and others. */
unsigned dpti_peers_requests(const dpt_trainer *trainer);
unsigned dpti_peers_agreed(const dpt_trainer *trainer);
/* All have agreed on these bits, too. */
void dpti_peers_note_agreed(dpt_trainer *trainer, unsigned requests);
/* The first process that asked to stop, once all have agreed, and its cause. */
size_t dpti_peers_stopped_by(const dpt_trainer *trainer);
unsigned dpti_peers_stopped_for(const dpt_trainer *trainer);
/* All have done it, nothing in flight: the request is over.  And: all requests are. */
void dpti_peers_have(dpt_trainer *trainer, dpti_run_request request);
void dpti_peers_forget_requests(dpt_trainer *trainer);

#endif
