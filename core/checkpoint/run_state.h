/* What a training is besides its tensors: where it stands, with which settings, what its loop has
   counted, what its balance has learnt.  As one JSON text, which goes into a checkpoint's metadata.
   Pure: knows no trainer, no device and no file. */
#ifndef DPTI_RUN_STATE_H
#define DPTI_RUN_STATE_H

#include "backend.h"
#include "balance/balance.h"
#include "balance/standby_policy.h"
#include "base/recorded.h"
#include "dptrain.h"
#include "train/feeding/order.h"

enum {
    DPTI_RUN_VERSION = 1,
    DPTI_SETTINGS = 40,
    DPTI_SETTING_KEY_BYTES = 24,
    DPTI_SETTING_BYTES = 192,
    DPTI_RUN_ID_BYTES = 96, /* of a device; longer ones are cut */
    DPTI_RUN_KIND_BYTES = 384,
};

/* What must be as it was for a training to go on exactly: the name of the option, and its value in
   words. */
typedef struct dpti_setting {
    char key[DPTI_SETTING_KEY_BYTES];
    char text[DPTI_SETTING_BYTES];
} dpti_setting;

typedef struct dpti_settings {
    size_t n;
    dpti_setting list[DPTI_SETTINGS];
} dpti_settings;

/* Appends one; there is room (a programming error otherwise, and nothing is appended). */
DPT_PRINTF(3, 4)
void dpti_settings_add(dpti_settings *settings, const char *key, const char *format, ...);
/* The text of a key, or NULL. */
const char *dpti_settings_find(const dpti_settings *settings, const char *key);

/* What dpt_fit counts.  Doubles are kept to the bit. */
typedef struct dpti_course {
    dpti_cursor first; /* where dpt_fit began, resumed ones not counted */
    double elapsed;    /* seconds since then, those in which nothing ran not counted */
    /* of the epoch under way */
    double loss, seconds;
    size_t samples, hits;
    size_t total_samples;
    size_t without_better; /* epochs since the best by validation loss */
    dpt_fit_result result;
} dpti_course;

typedef struct dpti_run_device {
    char id[DPTI_RUN_ID_BYTES];
    size_t share; /* of a full batch */
    dpti_time_model model;
    bool rests;
    double exchange; /* seconds of a step's; 0: not known */
} dpti_run_device;

/* What a device computed by, and what it is, in words: another one chooses for itself. */
typedef struct dpti_run_algorithms {
    char kind[DPTI_RUN_KIND_BYTES]; /* longer ones are cut */
    dpti_recorded_choices choices;
} dpti_run_algorithms;

typedef struct dpti_run_state {
    dpti_cursor done;
    size_t optimizer_origin, batches_before; /* as in dpt_trainer */
    double lr;
    dpti_settings settings; /* of the trainer, and of dpt_fit if it is in a course */
    bool in_course;
    dpti_course course;
    bool finished;            /* the course: its limits were reached */
    bool calibrated;          /* the balance's shares were chosen by measurement */
    size_t n_owing;           /* processes whose error feedback goes with it; 0: none */
    size_t n_devices;         /* 0: there was no balance */
    dpti_run_device *devices; /* (n_devices), owned */
    bool may_rest;            /* devices might; then: */
    dpti_standby_record rest;
    size_t n_algorithms;             /* devices of all processes; 0: it was not recorded */
    dpti_run_algorithms *algorithms; /* (n_algorithms), owned */
} dpti_run_state;

/* Accepts a zeroed one; zeroes it. */
void dpti_run_state_free(dpti_run_state *state);
/* To be freed; NULL without memory, or for an id that is no UTF-8. */
char *dpti_run_state_encode(const dpti_run_state *state);
/* DPT_E_FORMAT says what is wrong; `name` stands in messages.  What is accepted is in bounds:
   numbers are finite, counts below 2^48, sums and cursors of a course agree with each other. */
DPT_CHECK_RESULT dpt_status dpti_run_state_decode(const char *name, const char *text,
                                                  dpti_run_state *out, dpt_error *error);

#endif
