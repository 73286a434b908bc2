/* An open device: what core knows about it.

   A device's vtable is called on its driver thread only (driver.h).  In all headers of this folder,
   functions marked [driver] must run there, inside a job, and fields marked [driver] are read and
   written there.  Other functions are called from any other thread. */
#ifndef DPTI_DEVICE_H
#define DPTI_DEVICE_H

#include "backend.h"
#include "dptrain.h"

#include <stdatomic.h>

typedef struct dpti_driver dpti_driver;

enum { DPTI_ID_BYTES = 64 };

/* A rehearsal (rehearsal.h).  Changed while no job of the device runs. */
typedef struct dpti_rehearsal {
    bool on;
    size_t limit_bytes;
    size_t needs_bytes; /* [driver] the least limit that a refused allocation needs; 0: none */
} dpti_rehearsal;

/* An open device.  Every dpt_device pointer of the public API and of the vtable points to one. */
typedef struct dpti_device {
    dpt_device base; /* first */
    dpt_context *context;
    char id[DPTI_ID_BYTES]; /* its entry of the device list, parameters included: "cpu:threads=1" */
    char alias[DPTI_ID_BYTES]; /* "NAME:GROUP:0"; empty if the device is in no group */
    dpt_device_properties info;
    size_t memory_limit_bytes;       /* memory=; SIZE_MAX if not set */
    atomic_size_t memory_used_bytes; /* allocated by dpti_alloc */
    dpti_rehearsal rehearsal;
    double throttle; /* [driver] throttle=, at least 1, which is full speed */
    dpti_driver *driver;
    dpt_stream *stream;  /* the main stream, created with the device */
    atomic_ullong calls; /* counts entries into and returns from the vtable: odd within a call */
    bool lost;           /* [driver] a call returned DPT_E_DEVICE_LOST: only close is called now */
    bool unsynced;       /* [driver] work was enqueued on the main stream since the last sync */
    dpt_error deferred; /* [driver] the first failure of array work; dpt_device_set_wait takes it */
    dpt_error given_up; /* why its driver thread was abandoned; status DPT_OK: it was not */
    double patience; /* seconds that a call may last while the device is released; 0: by default */
    dpt_open_args *opening; /* the arguments of open, in one allocation */
    bool shut;              /* [driver] lost and closed: the vtable is not called any more */
    bool stays; /* a call of another device that may never return reads its memory: it stays open */
    atomic_size_t n_holders; /* trainers and arrays that have made something on the device */
} dpti_device;

static inline dpti_device *dpti_device_of(const dpt_device *device)
{
    return (dpti_device *)(uintptr_t)device;
}

/* [driver] Returns why the last call failed.  If the driver thread was abandoned, the call that has
   not returned may still write base.error at any time; given_up is returned instead. */
static inline const dpt_error *dpti_device_error(const dpti_device *device)
{
    return device->given_up.status == DPT_OK ? &device->base.error : &device->given_up;
}

#endif
