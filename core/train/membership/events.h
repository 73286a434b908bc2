/* What has happened to devices, for the caller, who takes it by dpt_trainer_next_event. */
#ifndef DPTI_EVENTS_H
#define DPTI_EVENTS_H

#include "device/device.h"
#include "dptrain.h"
#include "train/state/membership_state.h"

/* Notes an event of a device of all processes, at the step that is next.  Without memory the event
   is dropped: training does not need it. */
void dpti_trainer_note_event(dpt_trainer *trainer, dpt_device_event_kind kind, size_t device,
                             const dpt_error *error);
/* Takes the oldest event that the caller has not been told; valid until the next event is noted.
   NULL: there is none. */
const dpti_device_event *dpti_events_take(dpt_trainer *trainer);
void dpti_events_free(dpt_trainer *trainer);

#endif
