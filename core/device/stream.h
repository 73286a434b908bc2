/* The main stream of a device: waiting for it, events, recordings.  All functions fail as the
   backend does. */
#ifndef DPTI_STREAM_H
#define DPTI_STREAM_H

#include "device/device.h"

/* [driver] Waits until everything on the main stream is done, and reports deferred failures. */
DPT_CHECK_RESULT dpt_status dpti_sync(dpti_device *device);

/* [driver] Events on the main stream.  The events of a lost device are abandoned, like its memory.
   dpti_event_destroy accepts a pointer to NULL and leaves NULL there. */
DPT_CHECK_RESULT dpt_status dpti_event_create(dpti_device *device, dpt_event **out);
void dpti_event_destroy(dpti_device *device, dpt_event **event);
DPT_CHECK_RESULT dpt_status dpti_event_record(dpti_device *device, dpt_event *event);
DPT_CHECK_RESULT dpt_status dpti_event_query(dpti_device *device, dpt_event *event, bool *done);
DPT_CHECK_RESULT dpt_status dpti_event_sync(dpti_device *device, dpt_event *event);
DPT_CHECK_RESULT dpt_status dpti_event_elapsed(dpti_device *device, dpt_event *start,
                                               dpt_event *end, double *seconds);

/* [driver] Recordings on the main stream, if dpti_can_record says that the backend has them.
   dpti_recording_release accepts a pointer to NULL and leaves NULL there. */
bool dpti_can_record(const dpti_device *device);
/* Returns whether operators must have run before they are recorded (DPT_DEVICE_RECORDS_LATE). */
bool dpti_records_late(const dpti_device *device);
DPT_CHECK_RESULT dpt_status dpti_recording_begin(dpti_device *device);
DPT_CHECK_RESULT dpt_status dpti_recording_end(dpti_device *device, dpt_recording **out);
DPT_CHECK_RESULT dpt_status dpti_recording_replay(dpti_device *device, dpt_recording *recording);
void dpti_recording_release(dpti_device *device, dpt_recording **recording);

#endif
