/* The report of a run (docs/report.md): collects the events of devices while training runs, and
   makes the report at its end. */
#ifndef DPTI_REPORTING_H
#define DPTI_REPORTING_H

#include "fit/history.h"
#include "fit/samples.h"
#include "train/components/schedule.h"

/* What is collected for a report.  All zero: nothing yet. */
typedef struct dpti_reporting {
    dpti_report_event *events;
    size_t n_events, events_capacity, n_left_out;
    dpti_samples samples;
    size_t looked_step; /* the samples are those of the model after this step */
    char *no_samples;   /* why there are none; NULL: nothing is said */
} dpti_reporting;

/* Adds an event.  Events that are too many, or for which there is no memory, are counted only. */
void dpti_reporting_add(dpti_reporting *reporting, const dpt_device_event *event);
/* Notes why there are no samples; the text is copied. */
void dpti_reporting_no_samples(dpti_reporting *reporting, const char *why);

/* A training that has ended. */
typedef struct dpti_reported {
    const dpt_trainer *trainer;
    const dpt_fit_options *options;
    const dpt_fit_result *result;
    const dpti_history *history;
    const dpti_schedule *schedule;
    const char *ending; /* a sentence */
    bool well;
} dpti_reported;

/* Writes the report to options->report.  Errors: of dpti_report_write; the context has them. */
DPT_CHECK_RESULT dpt_status dpti_reporting_write(const dpti_reporting *reporting,
                                                 const dpti_reported *reported);
void dpti_reporting_free(dpti_reporting *reporting);

#endif
