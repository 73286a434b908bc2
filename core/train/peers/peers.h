/* The devices of other processes, as a trainer sees them: what they are, and what came of their
   shares.  Where there is one process alone its own devices are all.

   All processes call what is here alike and in the same order; a result is the same in all of them,
   and so is whatever is decided by it. */
#ifndef DPTI_PEERS_H
#define DPTI_PEERS_H

#include "base/times.h"
#include "collective/processes.h"
#include "device/device.h"

enum { DPTI_PEER_BYTES = 128 };

/* A device of any process. */
typedef struct dpti_peer {
    char id[DPTI_ID_BYTES], alias[DPTI_ID_BYTES];
    char backend[DPTI_ID_BYTES], name[DPTI_PEER_BYTES], detail[DPT_DETAIL_BYTES];
    char host[DPTI_ID_BYTES];
    unsigned char uuid[16]; /* of the hardware; this and its PCI id as dpt_device_info has them */
    char pci_id[16];
    size_t process, memory_bytes;
    unsigned n_threads;
    /* Of its worker. */
    size_t capacity;   /* most samples of a share */
    size_t at_once;    /* most that it computes at once, */
    bool takes_passes; /* which may be fewer */
    size_t pass_limit; /* likewise, whatever its share; SIZE_MAX: no limit */
    bool cached;       /* its caches hold no more; its memory would */
    bool streamed;     /* it is fed its data */
} dpti_peer;

/* What a process may ask all to do behind a step: a clock or a signal tells one process alone, and
   none may do it alone. */
typedef enum dpti_run_request {
    DPTI_RUN_REQUEST_STOP = 1 << 0, /* end training */
    DPTI_RUN_REQUEST_TIME = 1 << 1, /* the time is up */
    DPTI_RUN_REQUEST_KEEP =
        1 << 2, /* keep what lasts of all processes, before more steps are submitted */
} dpti_run_request;

/* What came of a device's share of a step. */
typedef struct dpti_outcome {
    dpt_status status; /* DPT_E_CANCELLED: not this device's fault */
    bool committed;
    double loss; /* sum */
    size_t hits;
    double seconds[DPTI_SPAN_KINDS];
    bool fresh;    /* of a first run, which tells nothing of later ones */
    char flaw[12]; /* with DPT_E_NOT_FINITE: what was not, as in "loss"; or DPTI_FLAW_UNREAD */
    /* Of the first device of each process: */
    unsigned requests; /* dpti_run_request bits */
    /* What the process took the step to be: */
    uint64_t step;
    uint64_t weights;  /* where it begins: a checksum if they were written by hand before, else 0 */
    uint64_t division; /* a checksum of which samples each device has */
    float lr;
    double data_seconds; /* of waiting for images that are read */
} dpti_outcome;

typedef struct dpt_trainer dpt_trainer;
struct dpti_share;
struct dpti_in_flight_step;

/* Tells the others of this process's devices and options and fills in trainer->peers and all that
   tells where this process's devices stand among them.  DPT_E_INVALID names what is not the same in
   all processes. */
DPT_CHECK_RESULT dpt_status dpti_peers_meet(dpt_trainer *trainer,
                                            const dpt_trainer_options *options);
void dpti_peers_free(dpt_trainer *trainer);
/* Whether all devices are of one backend, and none stands there twice, as far as UUIDs and PCI ids
   tell. */
bool dpti_peers_are_alike(const dpt_trainer *trainer);

/* The first failure of any process, recorded in every one's context, the process named; DPT_OK if
   there is none.  `mine` is this process's, which its context tells. */
DPT_CHECK_RESULT dpt_status dpti_peers_agree(dpt_trainer *trainer, dpt_status mine);
/* The same, and every process gets what each brings. */
DPT_CHECK_RESULT dpt_status dpti_peers_all_gather(dpt_trainer *trainer, dpt_status mine,
                                                  const void *data, size_t n_bytes,
                                                  dpti_gathered *out);
/* The same when workers have been made, or not (`mine`): tells what all can do. */
DPT_CHECK_RESULT dpt_status dpti_peers_share_capacities(dpt_trainer *trainer, dpt_status mine);
/* What the worker of this process can do, which is alone. */
void dpti_peers_note(dpt_trainer *trainer, size_t rank);
/* Whether all begin with the same weights, at the same place. */
DPT_CHECK_RESULT dpt_status dpti_peers_check_weights(dpt_trainer *trainer);

/* Where weights were written by hand since they were compared: takes a checksum of them, which is
   compared when the step is over.  Nothing in flight. */
DPT_CHECK_RESULT dpt_status dpti_peers_begin_step(dpt_trainer *trainer,
                                                  struct dpti_in_flight_step *inflight);
/* [driver] Behind a device's part of a step: when all of this process have done theirs, the first
   one tells the others' processes and fills in the flight's outcomes. */
void dpti_peers_finish(struct dpti_share *share);
/* Fills in a flight's outcomes where dpti_peers_finish did not. */
void dpti_peers_take(const dpt_trainer *trainer, struct dpti_in_flight_step *inflight);
/* Records the failure of another process's device, or of what connects them, in the context, or
   that the processes took other steps, which were told as one; DPT_OK if there is none. */
DPT_CHECK_RESULT dpt_status dpti_peers_report(dpt_trainer *trainer,
                                              struct dpti_in_flight_step *inflight);
/* Whether what has failed is reading images, in any process: weights are what they were. */
bool dpti_peers_could_not_read(const dpt_trainer *trainer,
                               const struct dpti_in_flight_step *inflight);

/* Gathers `item_bytes` for each device: this process's stand at items + first_device * item_bytes.
   And agrees. */
DPT_CHECK_RESULT dpt_status dpti_peers_gather(dpt_trainer *trainer, dpt_status mine, void *items,
                                              size_t item_bytes);

/* Asks for something that all do, or nobody: with the next step that is collected. */
void dpti_peers_request(dpt_trainer *trainer, dpti_run_request request);
/* All have done it, nothing in flight: it is wished and granted no more. */
void dpti_peers_have(dpt_trainer *trainer, dpti_run_request request);
/* What the first process says, wherever nothing is in flight and all ask. */
DPT_CHECK_RESULT dpt_status dpti_peers_ask_first(dpt_trainer *trainer, unsigned mine,
                                                 unsigned *first);

#endif
