/* Sums of times by kind, and the single spans. */
#include "base/times.h"

#include "base/clock.h"
#include "base/grow.h"

#include <stdlib.h>

void dpti_times_begin(dpti_times *times, bool keeps)
{
    for (size_t i = 0; i < DPTI_SPAN_KINDS; i++)
        times->seconds[i] = 0.0;
    times->keeps = keeps;
    times->lost = false;
    times->n_spans = 0;
}

static bool room(dpti_times *times)
{
    dpti_span *spans = dpti_grow(times->spans, times->n_spans, &times->capacity, sizeof *spans);
    if (spans) times->spans = spans;
    return spans != NULL;
}

void dpti_times_add(dpti_times *times, dpti_span_kind kind, double began, double seconds)
{
    if (!times) return;
    times->seconds[kind] += seconds;
    if (!times->keeps) return;
    if (!room(times)) {
        times->lost = true;
        return;
    }
    times->spans[times->n_spans++] = (dpti_span){.kind = kind, .began = began, .seconds = seconds};
}

double dpti_times_add_since(dpti_times *times, dpti_span_kind kind, double began)
{
    const double now = dpti_seconds();
    dpti_times_add(times, kind, began, now - began);
    return now;
}

void dpti_times_free(dpti_times *times)
{
    free(times->spans);
    *times = (dpti_times){.keeps = false};
}

dpti_stopwatch dpti_stopwatch_start(dpti_times *times)
{
    return (dpti_stopwatch){.times = times, .since = dpti_seconds()};
}

void dpti_stopwatch_lap(dpti_stopwatch *stopwatch, dpti_span_kind kind)
{
    stopwatch->since = dpti_times_add_since(stopwatch->times, kind, stopwatch->since);
}
