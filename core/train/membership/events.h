/* What has happened to devices, for the caller: dpt_trainer_next_event is defined in events.c. */
#ifndef DPTI_EVENTS_H
#define DPTI_EVENTS_H

#include "device/device.h"
#include "dptrain.h"

/* Notes an event of a device of all processes, at the step that is next.  Without memory the event
   is dropped: training does not need it. */
void dpti_trainer_note_event(dpt_trainer *trainer, dpt_device_event_kind kind, size_t device,
                             const dpt_error *error);
void dpti_events_free(dpt_trainer *trainer);

#endif
