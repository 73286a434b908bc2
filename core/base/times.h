/* What a thread spends its time on: sums by kind and, if they are wanted for a trace, the spans
   themselves. */
#ifndef DPTI_TIMES_H
#define DPTI_TIMES_H

#include "dpt_types.h"

typedef enum dpti_span_kind {
    DPTI_SPAN_COMPUTE,
    DPTI_SPAN_UPLOAD,   /* of its own samples */
    DPTI_SPAN_EXCHANGE, /* its own part of an exchange: transfers and sums */
    DPTI_SPAN_WAITING,  /* for other devices */
    DPTI_SPAN_KINDS
} dpti_span_kind;

typedef struct dpti_span {
    dpti_span_kind kind;
    double began; /* as dpti_seconds tells */
    double seconds;
} dpti_span;

/* Zeroed: empty. */
typedef struct dpti_times {
    double seconds[DPTI_SPAN_KINDS];
    bool keeps; /* keeps spans, not only their sums */
    bool lost;  /* memory for a span was short */
    size_t n_spans, capacity;
    dpti_span *spans; /* in the order in which they ended */
} dpti_times;

/* Empties the times.  The memory of the spans is kept for the next spans. */
void dpti_times_begin(dpti_times *times, bool keeps);
/* Adds a span.  `times` may be NULL: nothing is recorded. */
void dpti_times_add(dpti_times *times, dpti_span_kind kind, double began, double seconds);
/* Adds a span that ends now, and returns the present time.  `times` may be NULL. */
double dpti_times_add_since(dpti_times *times, dpti_span_kind kind, double began);
void dpti_times_free(dpti_times *times); /* zeroes it */

/* Divides the time of a thread into spans that follow each other without gaps. */
typedef struct dpti_stopwatch {
    dpti_times *times; /* NULL: the spans are not recorded */
    double since;      /* when the present span began, as dpti_seconds tells */
} dpti_stopwatch;

/* Begins a span now. */
dpti_stopwatch dpti_stopwatch_start(dpti_times *times);
/* Ends the present span, adds it to the times as of this kind, and begins the next one. */
void dpti_stopwatch_lap(dpti_stopwatch *stopwatch, dpti_span_kind kind);

#endif
