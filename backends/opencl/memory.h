/* Memory of an OpenCL device beyond the vtable's entries. */
#ifndef DPT_OPENCL_MEMORY_H
#define DPT_OPENCL_MEMORY_H

#include "device.h"

/* An in-order queue of the device, profiled. */
DPT_CHECK_RESULT dpt_status dpt_cl_queue_create(dpt_device *device, cl_command_queue *out);

/* Gives back pinned memory that was never freed. */
void dpt_cl_pinned_destroy(dpt_device *device);
/* Ends the streams that were never destroyed (stream.c). */
void dpt_cl_streams_destroy(dpt_device *device);

#endif
