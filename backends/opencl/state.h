/* The state behind the opaque types of backend.h: an open OpenCL device, a buffer and a stream. The
   backend's files share this header; it declares no function that is defined in another file. */
#ifndef DPT_OPENCL_STATE_H
#define DPT_OPENCL_STATE_H

#include "found.h"
#include "launch.h"
#include "opencl.h"
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
    dpt_stream *next;       /* the next stream of the device */
};

/* The parameters of a device string (docs/devices.md). */
typedef struct dpt_cl_params {
    /* path=: the convolutions and products that are considered */
    enum { DPT_CL_PATH_MEASURED, DPT_CL_PATH_LOCAL, DPT_CL_PATH_REGISTERS } path;
    /* algorithm=: the beginning of the names of the algorithms that are considered, or NULL.  Owned
       by the device. */
    char *algorithm;
    dpt_dtype activations; /* precision=: the type in which activations are stored */
} dpt_cl_params;

/* dpt_device.state */
typedef struct dpt_cl_device {
    const dpt_cl_found *found; /* its description, which platforms.h owns */
    cl_context context;        /* one for each physical device, shared by its replicas */
    cl_command_queue queue;    /* in order; for tuning, and transfers outside a stream */
    dpt_stream scratch;        /* `queue` as a stream */
    dpt_traits traits;
    dpt_tuner tuner;
    dpt_cl_programs *programs;
    dpt_cl_compiler *compiler; /* compiles in a helper process first */
    dpt_cl_pinned *pinned;
    dpt_stream *streams; /* the open streams; core destroys no stream of a lost device */
    dpt_cl_params params;
    bool uses_clblast; /* clblast.h */
} dpt_cl_device;

static inline dpt_cl_device *dpt_cl_device_of(const dpt_device *device)
{
    return device->state;
}

#endif
