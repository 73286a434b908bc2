/* The state behind the opaque types of backend.h: an open CPU device, a buffer, a stream and a
   recording.  The backend's files share this header; it declares no function that is defined in
   another file. */
#ifndef DPT_CPU_STATE_H
#define DPT_CPU_STATE_H

#include "backend.h"
#include "common/choices.h"
#include "host.h"
#include "operators.h"

enum { DPT_CPU_ALIGNMENT_BYTES = 64 };

/* dpt_device.state */
typedef struct dpt_cpu_device {
    const dpt_cpu_host *host;
    dpt_cpu_team *team;
    unsigned n_threads;    /* of the team */
    unsigned self;         /* index of the device's entry in the device list */
    unsigned n_processors; /* of dpt_open_args */
    bool bound;            /* every thread is bound to a core of its own */
    char *algorithm;       /* the value of algorithm= (choose.h), owned by the device, or NULL */
    dpt_choices *choices;  /* shared by all CPU devices of the process, never freed */
} dpt_cpu_device;

struct dpt_buffer {
    unsigned char *data;
    bool owned; /* false: wrapped memory, which the caller frees */
};

struct dpt_recording {
    dpt_cpu_work *works;
    size_t n_works, capacity;
    dpt_status status; /* of the first work that could not be recorded, or DPT_OK */
};

struct dpt_stream {
    dpt_device *device;
    dpt_recording *recording; /* NULL: the stream is not recording */
};

static inline dpt_cpu_device *dpt_cpu_device_of(const dpt_device *device)
{
    return device->state;
}

/* The address of a location; NULL for {NULL, 0}. */
static inline void *dpt_cpu_address(dpt_location location)
{
    return location.buffer ? location.buffer->data + location.offset_bytes : NULL;
}

#endif
