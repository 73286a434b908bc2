/* An open CPU device, its streams and its memory, as the backend's own files see them. */
#ifndef DPT_CPU_DEVICE_H
#define DPT_CPU_DEVICE_H

#include "backend.h"
#include "common/choices.h"
#include "host.h"
#include "operators.h"

enum { DPT_CPU_ALIGNMENT_BYTES = 64 };

/* dpt_device.state */
typedef struct dpt_cpu_device {
    const dpt_cpu_host *host;
    dpt_cpu_team *team;
    unsigned n_threads;
    unsigned self;        /* which entry of the device list */
    bool bound;           /* every thread has a core of its own */
    char *algorithm;      /* algorithm= (choose.h), or NULL */
    dpt_choices *choices; /* the process's */
} dpt_cpu_device;

struct dpt_buffer {
    unsigned char *data;
    bool owned; /* false: the caller's, wrapped */
};

struct dpt_recording {
    dpt_cpu_work *works;
    size_t n_works, capacity;
    dpt_status status; /* of the first work that could not be recorded */
};

/* Work is done before the enqueuing call returns, by the driver and its team, or put down in the
   recording while there is one. */
struct dpt_stream {
    dpt_device *device;
    dpt_recording *recording; /* NULL: not recording */
};

static inline dpt_cpu_device *dpt_cpu_device_of(const dpt_device *device)
{
    return device->state;
}

static inline void *dpt_cpu_address(dpt_location location)
{
    return location.buffer ? location.buffer->data + location.offset_bytes : NULL;
}

/* Does or records one piece of work; the call's team is filled in here. */
DPT_CHECK_RESULT dpt_status dpt_cpu_stream_do(dpt_stream *stream, dpt_cpu_work work);
/* Does a list of works in order, in one job of the team. */
void dpt_cpu_team_do(dpt_cpu_team *team, const dpt_cpu_work *works, size_t n_works);

extern const dpt_device_ops dpt_cpu_device_ops;
extern const dpt_memory_ops dpt_cpu_memory_ops;
extern const dpt_stream_ops dpt_cpu_stream_ops;
extern const dpt_operator_ops dpt_cpu_operator_ops;
extern const dpt_capture_ops dpt_cpu_capture_ops;
extern const dpt_param_spec dpt_cpu_params[];

#endif
