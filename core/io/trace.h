/* A timeline in Chrome's trace-event format, which Perfetto and chrome://tracing open: processes
   with tracks, spans on tracks, marks, and counters.  The input is names and numbers only.

   The file is a JSON array (T.  Preece et al., "Trace Event Format").  It is written through a
   buffer that is flushed only between events.  So a killed process leaves an array without its
   end, which viewers accept, and no partial event.  After the first failure all calls do nothing,
   and dpti_trace_status returns the failure. */
#ifndef DPTI_TRACE_H
#define DPTI_TRACE_H

#include "dpt_error.h"

typedef struct dpti_trace dpti_trace;

/* Creates or truncates.  Times count from `origin`, as dpti_seconds tells.  DPT_E_IO and
   DPT_E_STATE as of dpti_output_open (output.h). */
DPT_CHECK_RESULT dpt_status dpti_trace_open(const char *path, double origin, dpti_trace **out,
                                            dpt_error *error);
/* Ends the array and closes, whatever happened; DPT_E_IO if anything could not be written.  Accepts
   NULL. */
DPT_CHECK_RESULT dpt_status dpti_trace_close(dpti_trace *trace, dpt_error *error);

/* Writes what is in the buffer, and tells whether all has been well so far. */
DPT_CHECK_RESULT dpt_status dpti_trace_flush(dpti_trace *trace, dpt_error *error);
DPT_CHECK_RESULT dpt_status dpti_trace_status(const dpti_trace *trace, dpt_error *error);

/* A process, shown in the order of making, and what it is (NULL: nothing to say); its number. */
size_t dpti_trace_process(dpti_trace *trace, const char *name, const char *what);
/* A track of a process; its number. */
size_t dpti_trace_track(dpti_trace *trace, size_t process, const char *name);

/* An event on a track: a span, or a mark, whose `seconds` is not used. */
typedef struct dpti_trace_event {
    const char *name;
    double when, seconds; /* when it began, as dpti_seconds tells, and how long it took */
    const char *args;     /* JSON without its braces, such as "\"step\":3" */
} dpti_trace_event;

/* The value of a counter from a time on.  The value is at least 0 and is written in thousandths. */
typedef struct dpti_trace_value {
    const char *name;
    double when; /* as dpti_seconds tells */
    double value;
} dpti_trace_value;

/* Adds a span.  On one track none may begin before those that were added before it have ended; one
   that does, as a device's clock is not the host's, is moved behind them and keeps its length. */
void dpti_trace_span(dpti_trace *trace, size_t track, const dpti_trace_event *span);
void dpti_trace_mark(dpti_trace *trace, size_t track, const dpti_trace_event *mark);
/* Sets a counter of a process. */
void dpti_trace_count(dpti_trace *trace, size_t process, const dpti_trace_value *counter);

#endif
