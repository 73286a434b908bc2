/* What processes tell each other about a device: what the device is, and what came of its part of a
   step. */
#ifndef DPTI_OUTCOME_H
#define DPTI_OUTCOME_H

#include "base/exact_sum.h"
#include "base/times.h"
#include "device/device.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The flaw of a step whose images could not be read: the weights are what they were. */
#define DPTI_FLAW_UNREAD "images"
/* The flaw of a step in which a function of the program failed: likewise. */
#define DPTI_FLAW_CALLBACK "callback"

enum { DPTI_PEER_BYTES = 128 };

/* A device of any process. */
typedef struct dpti_peer {
    char id[DPTI_ID_BYTES], alias[DPTI_ID_BYTES];
    char backend[DPTI_ID_BYTES], name[DPTI_PEER_BYTES], detail[DPT_DETAIL_BYTES];
    char host[DPTI_ID_BYTES];
    unsigned char uuid[16]; /* of the hardware, as in dpt_device_properties */
    char pci_id[16];        /* likewise */
    size_t process, memory_bytes;
    unsigned n_threads;
    /* What the device's worker can do. */
    size_t capacity;          /* most samples of a batch in its shard */
    size_t at_once;           /* most samples that it computes at once */
    bool in_micro_batches;    /* its shard may be larger than that */
    size_t micro_batch_limit; /* most samples at once, whatever the shard; SIZE_MAX: no limit */
    bool cached;              /* the limit is what its caches hold; its memory would hold more */
    bool streamed;            /* its samples are sent with each step */
} dpti_peer;

/* What a process may ask of all processes, to be done behind a step.  A clock or a signal reaches
   one process alone, and no process may act alone. */
typedef enum dpti_run_request {
    DPTI_RUN_REQUEST_STOP = 1 << 0, /* end training */
    DPTI_RUN_REQUEST_TIME = 1 << 1, /* end training, since the time is up */
    DPTI_RUN_REQUEST_KEEP = 1 << 2, /* keep the training state of all processes in memory before
                                       more steps are submitted */
    DPTI_RUN_REQUEST_JOIN = 1 << 3, /* let another process in before more steps are submitted */
    DPTI_RUN_REQUESTS = 1 << 4,     /* above all of them */
} dpti_run_request;

/* Beside DPTI_RUN_REQUEST_STOP, from this bit on: for what the process ends training, 1 to 255. */
enum { DPTI_RUN_CAUSE_BIT = 16, DPTI_RUN_CAUSES = 255 };

/* What came of one device's shard of a step. */
typedef struct dpti_outcome {
    dpt_status status; /* DPT_E_CANCELLED: another device's failure */
    bool committed;
    double loss;               /* sum */
    dpti_exact_sum exact_loss; /* the same, of deterministic training */
    size_t hits;
    double seconds[DPTI_SPAN_KINDS];
    bool first_run; /* of a first run, which says nothing about later steps */
    char flaw[12];  /* with DPT_E_NOT_FINITE: what is not finite, such as "loss"; or
                       DPTI_FLAW_UNREAD or DPTI_FLAW_CALLBACK */
    /* Set for the first device of each process alone. */
    unsigned requests; /* dpti_run_request bits, and the cause of a stop */
    bool ends_round;   /* no step is told, but that the process ends a round of local steps */
    uint64_t step;     /* number of the step, as the process counts */
    uint64_t weights;  /* checksum of the weights before the step if a caller has written them since
                          they were compared last, else 0 */
    uint64_t division; /* checksum of which samples each device has */
    float lr;
    double data_seconds; /* waiting for images that are read */
} dpti_outcome;

#endif
