/* How the samples of a batch are divided into shards, one for each device.
   Part of the public API: programs include dptrain.h. */
#ifndef DPTRAIN_SPLIT_H
#define DPTRAIN_SPLIT_H

#include "dptrain/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dpt_split_kind {
    DPT_SPLIT_MEASURED = 0,    /* by the measured throughput of the devices, so that all devices end
                                  a step at the same time */
    DPT_SPLIT_EQUAL = 1,       /* equal shards */
    DPT_SPLIT_PROPORTIONS = 2, /* fixed proportions */
    DPT_SPLIT_REPLAY = 3,      /* the shards and the algorithms that a log records (docs/log.md) */
} dpt_split_kind;

/* The rule by which a batch is divided.  The rule of a zeroed struct is DPT_SPLIT_MEASURED. */
typedef struct dpt_split {
    dpt_split_kind kind;
    const char *value; /* PROPORTIONS: such as "3:1", one number for each device; REPLAY: the path
                          of the log; else NULL */
} dpt_split;

/* Returns the split that a text describes: "measured", "equal", "A:B:C" for proportions, or
   "replay:LOG".  NULL gives DPT_SPLIT_MEASURED.  The value points into `text`.  Any other text
   gives DPT_SPLIT_PROPORTIONS; the call that uses that split reports the error.  Cannot fail. */
DPT_API dpt_split dpt_split_from(const char *text);

/* Divides n_rows rows among n_devices devices and writes n_devices counts to `shards`.
   DPT_SPLIT_EQUAL gives chunks of ceil(n_rows / n_devices) rows; the last devices may get no rows.
   DPT_SPLIT_PROPORTIONS is rounded so that the counts add up to n_rows.  Errors: DPT_E_INVALID for
   another kind, because only a trainer can measure and replay, for proportions that are no
   n_devices numbers of at least 0, or if n_devices is out of range. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_shard_rows(dpt_context *context, dpt_split split,
                                                   size_t n_rows, size_t n_devices, size_t *shards);

#ifdef __cplusplus
}
#endif

#endif
