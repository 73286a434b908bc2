/* An open OpenCL device, its streams and its memory, as the backend's own files see them. */
#ifndef DPT_OPENCL_DEVICE_H
#define DPT_OPENCL_DEVICE_H

#include "launch.h"
#include "opencl.h"
#include "platforms.h"
#include "tuning.h"

typedef struct dpt_cl_programs dpt_cl_programs; /* program.h */
typedef struct dpt_cl_compiler dpt_cl_compiler; /* contain.h */
typedef struct dpt_cl_pinned dpt_cl_pinned;     /* memory.c */

struct dpt_buffer {
    cl_mem memory;
    size_t n_bytes;
};

struct dpt_stream {
    dpt_device *device;
    cl_command_queue queue; /* in order, profiled */
    dpt_stream *next;       /* of the device's */
};

/* What the parameters of a device string ask for (docs/devices.md). */
typedef struct dpt_cl_params {
    /* path=: which convolutions and products are considered */
    enum { DPT_CL_PATH_MEASURED, DPT_CL_PATH_LOCAL, DPT_CL_PATH_REGISTERS } path;
    /* algorithm=: the name of the only one considered where it supports the shape, or NULL: for
       tests and measurements.  Owned by the device. */
    char *algorithm;
    dpt_dtype activations; /* precision=: as what they are stored */
} dpt_cl_params;

/* dpt_device.state */
typedef struct dpt_cl_device {
    const dpt_cl_found *found; /* what it is: names, limits (platforms.h) */
    cl_context context;        /* one for each physical device, shared by its replicas */
    cl_command_queue queue;    /* of tuning and transfers outside any stream; in order */
    dpt_stream scratch;        /* the same as a stream */
    dpt_traits traits;
    dpt_tuner tuner;
    dpt_cl_programs *programs;
    dpt_cl_compiler *compiler; /* compiles in another process first */
    dpt_cl_pinned *pinned;
    dpt_stream *streams; /* that are there: core destroys none of a device that is lost */
    dpt_cl_params params;
    bool uses_clblast; /* clblast.h */
} dpt_cl_device;

static inline dpt_cl_device *dpt_cl_device_of(const dpt_device *device)
{
    return device->state;
}

extern const dpt_device_ops dpt_cl_device_ops;
extern const dpt_memory_ops dpt_cl_memory_ops;
extern const dpt_stream_ops dpt_cl_stream_ops;
extern const dpt_param_spec dpt_cl_param_specs[];

#endif
