/* Functions of memory.c and stream.c that opening and closing a device need. */
#ifndef DPT_OPENCL_MEMORY_H
#define DPT_OPENCL_MEMORY_H

#include "state.h"

/* Creates an in-order queue of the device, with profiling. */
DPT_CHECK_RESULT dpt_status dpt_cl_queue_create(dpt_device *device, cl_command_queue *out);

/* Frees pinned memory that was never freed. */
void dpt_cl_pinned_destroy(dpt_device *device);
/* Destroys the streams that were never destroyed (stream.c). */
void dpt_cl_streams_destroy(dpt_device *device);

#endif
