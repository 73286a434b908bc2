/* The list of events that the caller has not been told yet (events.h). */
#include "train/membership/events.h"

#include "base/grow.h"
#include "train/progress/in_flight.h"
#include "train/state/trainer.h"

#include <stdlib.h>
#include <string.h>

/* Forgets the events that were told, and makes room for one more.  false without memory. */
static bool make_room(dpti_device_events *e)
{
    if (e->n_taken > 0) {
        e->n -= e->n_taken;
        memmove(e->events, e->events + e->n_taken, e->n * sizeof *e->events);
        e->n_taken = 0;
    }
    dpti_device_event *events = dpti_grow(e->events, e->n, &e->room, sizeof *events);
    if (events) e->events = events;
    return events != NULL;
}

void dpti_trainer_note_event(dpt_trainer *trainer, dpt_device_event_kind kind, size_t device,
                             const dpt_error *error)
{
    dpti_device_events *e = &trainer->membership.events;
    if (!make_room(e)) return;
    /* Training that has gone back goes on where it was. */
    const size_t done = dpti_steps_done(trainer)->step;
    const size_t retry_to = dpti_steps_retry_to(trainer);
    e->events[e->n++] = (dpti_device_event){.kind = kind,
                                            .device = device,
                                            .step = (done > retry_to ? done : retry_to) + 1,
                                            .error = *error};
}

const dpti_device_event *dpti_events_take(dpt_trainer *trainer)
{
    dpti_device_events *e = &trainer->membership.events;
    return e->n_taken < e->n ? &e->events[e->n_taken++] : NULL;
}

void dpti_events_free(dpt_trainer *trainer)
{
    free(trainer->membership.events.events);
}
