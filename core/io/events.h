/* TensorBoard's event files: scalars, texts, histograms and hyper-parameters over the steps of a
   training.  The input is names and numbers only.

   A file is a list of records: a length, its checksum, a message `Event` of Protocol Buffers, its
   checksum (little-endian; CRC-32C, rotated and offset).  Whole records are written, at least once
   a second and by dpti_events_flush.  So a killed process leaves whole records.  After the first
   failure all calls do nothing, and dpti_events_flush and dpti_events_close return the failure. */
#ifndef DPTI_EVENTS_H
#define DPTI_EVENTS_H

#include "dpt_error.h"

typedef struct dpti_events dpti_events;

/* Checks that a folder, which exists, has no event files: TensorBoard shows all that are in one
   folder as one training.  Errors: DPT_E_INVALID if there are some; DPT_E_IO. */
DPT_CHECK_RESULT dpt_status dpti_events_check_new(const char *folder, dpt_error *error);
/* Creates a file in a folder that exists.  Its name is later in the order of names than those of
   all event files there, because TensorBoard reads them in this order.  The file begins with the
   start of a session at step `first_step`: readers forget what earlier files of the folder tell of
   this step and of later ones.  Errors: DPT_E_IO, DPT_E_STATE (dpti_output_open), DPT_E_NO_MEMORY.
 */
DPT_CHECK_RESULT dpt_status dpti_events_open(const char *folder, size_t first_step,
                                             dpti_events **out, dpt_error *error);
/* Returns the first failure so far. */
DPT_CHECK_RESULT dpt_status dpti_events_status(const dpti_events *events, dpt_error *error);
/* Writes what is in the buffer.  Errors: DPT_E_IO and DPT_E_NO_MEMORY, of this call or an earlier
   one. */
DPT_CHECK_RESULT dpt_status dpti_events_flush(dpti_events *events, dpt_error *error);
/* Writes what is in the buffer, and closes the file in any case.  Accepts NULL.  Errors: as of
   dpti_events_flush. */
dpt_status dpti_events_close(dpti_events *events, dpt_error *error);

/* A value of a curve.  TensorBoard puts curves with the same text before the first '/' of their
   tags together. */
typedef struct dpti_scalar {
    const char *tag;
    double value; /* stored as a float32 */
} dpti_scalar;

/* Adds a point to each of n curves. */
void dpti_events_scalars(dpti_events *events, size_t step, const dpti_scalar *scalars, size_t n);

/* A text that belongs to a step.  TensorBoard shows it as Markdown. */
typedef struct dpti_event_text {
    const char *tag, *text;
} dpti_event_text;

void dpti_events_text(dpti_events *events, size_t step, const dpti_event_text *text);

/* Numbers whose distribution is shown.  Values that are not finite are left out; nothing is written
   if no value is left. */
typedef struct dpti_event_values {
    const char *tag;
    const float *values;
    size_t n;
} dpti_event_values;

void dpti_events_histogram(dpti_events *events, size_t step, const dpti_event_values *values);

/* A hyper-parameter.  A value that reads as a number is written as one. */
typedef struct dpti_event_parameter {
    const char *name, *value;
} dpti_event_parameter;

/* The hyper-parameters of a training, and the tags of the curves that they are compared by. */
typedef struct dpti_event_parameters {
    const dpti_event_parameter *list;
    size_t n;
    const char *const *metrics;
    size_t n_metrics;
} dpti_event_parameters;

void dpti_events_parameters(dpti_events *events, const dpti_event_parameters *parameters);
/* Tells that the training with these hyper-parameters has come to its end. */
void dpti_events_finished(dpti_events *events);

#endif
