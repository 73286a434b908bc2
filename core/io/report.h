/* The report of a training as one HTML file: what was run and how it ended, curves, devices, and
   what the model takes samples for.  The input is numbers, texts and pictures only.

   The file has no external parts and no script.  Texts from outside are escaped, and the page's
   content security policy allows nothing but its own style and pictures. */
#ifndef DPTI_REPORT_H
#define DPTI_REPORT_H

#include "base/bytes.h"
#include "base/class_counts.h"
#include "dpt_error.h"

/* A name and a value, as texts. */
typedef struct dpti_report_fact {
    const char *name, *value;
} dpti_report_fact;

/* The curves of a run.  NaN: not measured. */
typedef struct dpti_report_course {
    size_t steps_before, epochs_before; /* steps and epochs of the training before these */
    size_t n_steps, n_epochs;
    const double *loss, *lr;                                /* (n_steps) */
    const size_t *shards;                                   /* (n_steps, n_devices) */
    const bool *rebalanced;                                 /* (n_steps) */
    const double *train_loss, *validation_loss, *test_loss; /* (n_epochs), as those below */
    const double *train_accuracy, *validation_accuracy, *test_accuracy;
    bool has_accuracy;
} dpti_report_course;

typedef struct dpti_report_device {
    const char *id, *backend, *name, *detail, *host; /* detail and host may be NULL */
    size_t threads, memory_bytes;                    /* 0: not known */
    double share, busy, exchange, waiting; /* parts of all samples, and of the time of the steps */
    double throughput;                     /* samples per second of busy time; 0: none */
    bool lost;
} dpti_report_device;

/* An event of a device. */
typedef struct dpti_report_event {
    size_t step;
    char *kind, *device, *message;
} dpti_report_event;

/* A sample with a large loss. */
typedef struct dpti_report_sample {
    size_t index;            /* in the data set, from 0 */
    size_t label, predicted; /* classes */
    double right, guess;     /* probabilities of these */
    double loss;
    size_t height, width; /* of the data's image */
    dpti_content png;     /* a thumbnail; empty: the sample is no picture */
} dpti_report_sample;

/* What a model takes the samples of a data set for. */
typedef struct dpti_report_classes {
    const char *part; /* "test" */
    size_t
        epoch; /* the model is that of the end of this epoch, from 1; 0: of the end of training */
    const char *const *names; /* (n_names), of the first classes; NULL: numbers are their names */
    size_t n_names;
    dpti_class_counts counts;
    const dpti_report_sample *worst; /* (n_worst) the largest loss first */
    size_t n_worst;
} dpti_report_classes;

typedef struct dpti_report {
    const char *title, *version;
    const char *command; /* NULL: not known */
    const char *ending;  /* a sentence */
    bool well;           /* training has come to its end */
    const dpti_report_fact *facts, *settings;
    size_t n_facts, n_settings;
    dpti_report_course course;
    const dpti_report_device *devices;
    size_t n_devices;
    const dpti_report_event *events;
    size_t n_events, n_events_left_out;
    const dpti_report_classes *classes; /* NULL: none */
    const char *no_classes;             /* then a sentence that says why; NULL: nothing is said */
} dpti_report;

/* Writes the report atomically.  Long runs are thinned to what a picture can show.  Errors:
   DPT_E_IO, DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_report_write(const char *path, const dpti_report *report,
                                              dpt_error *error);

#endif
