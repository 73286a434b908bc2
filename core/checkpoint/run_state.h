/* The run state: everything about a training except its tensors.  It holds the position, the
   settings, the counts of the training loop, and what the balance has learnt.  It is one JSON text
   in the metadata of a checkpoint.  Uses no trainer, no device and no file. */
#ifndef DPTI_RUN_STATE_H
#define DPTI_RUN_STATE_H

#include "balance/balance.h"
#include "balance/standby_policy.h"
#include "base/recorded.h"
#include "dpt_error.h"
#include "dptrain.h"
#include "train/components/order.h"

enum {
    DPTI_RUN_VERSION = 1,
    DPTI_SETTINGS = 40,
    DPTI_SETTING_KEY_BYTES = 24,
    DPTI_SETTING_BYTES = 192,
    DPTI_RUN_ID_BYTES = 96, /* of a device's id; longer ids are cut */
};

/* A setting that must be unchanged for a training to be resumed exactly: the name of the option,
   and its value as text. */
typedef struct dpti_setting {
    char key[DPTI_SETTING_KEY_BYTES];
    char text[DPTI_SETTING_BYTES];
} dpti_setting;

typedef struct dpti_settings {
    size_t n;
    dpti_setting list[DPTI_SETTINGS];
} dpti_settings;

/* Appends a setting.  There is always room; otherwise it is a programming error, and nothing is
   appended. */
DPT_PRINTF(3, 4)
void dpti_settings_add(dpti_settings *settings, const char *key, const char *format, ...);
/* Returns the text of a key, or NULL. */
const char *dpti_settings_find(const dpti_settings *settings, const char *key);

/* The counts of dpt_fit.  Doubles are kept to the bit. */
typedef struct dpti_course {
    dpti_cursor first; /* where the first dpt_fit of the training began, before any resume */
    double elapsed;    /* seconds of training since then, without the time between processes */
    /* of the current epoch */
    double loss, seconds;
    size_t samples, labels, hits;
    size_t total_samples;
    size_t without_better; /* epochs since the lowest validation loss */
    dpt_fit_result result;
} dpti_course;

typedef struct dpti_run_device {
    char id[DPTI_RUN_ID_BYTES];
    size_t shard; /* shard of a full batch */
    dpti_time_model model;
    bool rests;
    double exchange; /* seconds of the exchange in a step; 0: not known */
} dpti_run_device;

typedef struct dpti_run_state {
    dpti_cursor done;
    size_t optimizer_origin, batches_before; /* as in dpt_trainer */
    double lr;
    dpti_settings
        settings; /* of the trainer, and of dpt_fit if the checkpoint was made within dpt_fit */
    bool in_course;
    dpti_course course;
    bool finished;            /* the limits of dpt_fit were reached */
    bool calibrated;          /* the balance's shards were chosen by measurement */
    size_t n_owing;           /* number of processes whose error feedback is in the file; 0: none */
    size_t n_devices;         /* 0: shards were not measured */
    dpti_run_device *devices; /* (n_devices), owned */
    bool may_standby;         /* standby was enabled; then: */
    dpti_standby_record rest;
    dpti_recorded_devices algorithms; /* of the devices of all processes */
} dpti_run_state;

/* Accepts a zeroed struct; sets it to zero. */
void dpti_run_state_free(dpti_run_state *state);
/* Returns the JSON text, which the caller frees; NULL if there is no memory or an id is not
   UTF-8. */
char *dpti_run_state_encode(const dpti_run_state *state);
/* Errors: DPT_E_FORMAT with what is wrong; `name` is used in messages.  An accepted state is in
   bounds: numbers are finite, counts are below 2^48, and the sums and cursors of a course agree
   with each other. */
DPT_CHECK_RESULT dpt_status dpti_run_state_decode(const char *name, const char *text,
                                                  dpti_run_state *out, dpt_error *error);

#endif
