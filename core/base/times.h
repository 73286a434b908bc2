/* What a thread spends its time on: sums by kind and, for whoever wants to draw them, the spans
   themselves.  Knows nothing of devices. */
#ifndef DPTI_TIMES_H
#define DPTI_TIMES_H

#include "dpt_types.h"

typedef enum dpti_span_kind {
    DPTI_SPAN_COMPUTE,
    DPTI_SPAN_UPLOAD,   /* of its own samples */
    DPTI_SPAN_EXCHANGE, /* its own part of what devices exchange: transfers and sums */
    DPTI_SPAN_WAITING,  /* for the others */
    DPTI_SPAN_KINDS
} dpti_span_kind;

typedef struct dpti_span {
    dpti_span_kind kind;
    double began; /* as dpti_seconds tells */
    double seconds;
} dpti_span;

/* Zeroed: nothing yet. */
typedef struct dpti_times {
    double seconds[DPTI_SPAN_KINDS];
    bool keeps; /* spans, not only their sums */
    bool lost;  /* there was no memory for a span */
    size_t n_spans, capacity;
    dpti_span *spans; /* in the order in which they ended */
} dpti_times;

/* From nothing again; memory that spans had stays for the next ones. */
void dpti_times_begin(dpti_times *times, bool keeps);
/* times may be NULL: nobody wants to know. */
void dpti_times_add(dpti_times *times, dpti_span_kind kind, double began, double seconds);
/* Adds a span that ends now, and returns now. */
double dpti_times_add_since(dpti_times *times, dpti_span_kind kind, double began);
void dpti_times_free(dpti_times *times); /* zeroes it */

#endif
