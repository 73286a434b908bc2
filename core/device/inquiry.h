/* Asks a backend for its devices before any device is open.  The vendor's driver may not answer, so
   a thread of its own asks.  That thread is abandoned if the driver hangs. */
#ifndef DPTI_INQUIRY_H
#define DPTI_INQUIRY_H

#include "device/device.h"

enum { DPTI_MAX_DEVICES_PER_BACKEND = 1024 };

/* What the backend says about one device. */
typedef struct dpti_answer {
    dpt_status status; /* of describe; DPT_OK: info is valid; else error has the reason */
    dpt_device_properties info;
    dpt_error error;
} dpti_answer;

typedef struct dpti_inquiry {
    dpti_device asked; /* first; stands for the backend: its driver thread asks */
    char *path;        /* the plug-in to load; NULL: the backend is loaded */
    const dpt_backend *backend;
    /* Memory that calls of the backend write to; it stays with a call that hangs. */
    dpti_answer answer;
    size_t n_found;
    /* The results. */
    bool hung;       /* a call did not return: load, probe, or describe of the next device */
    dpt_error error; /* why there is no device, or why a call hung; status DPT_OK: nothing failed */
    size_t n_devices; /* the number of devices, or 0 */
    size_t n_answers; /* so many of them, from the first, have answers */
    dpti_answer *answers;
} dpti_inquiry;

/* The backend that is asked. */
typedef struct dpti_asked {
    const char *name;
    const char *path;           /* of its plug-in; NULL: the backend is loaded already */
    const dpt_backend *backend; /* if `path` is NULL */
} dpti_asked;

/* Loads the plug-in, unless the backend is loaded, checks its descriptor and asks for its devices.
   Failures of the backend itself are in (*out)->error.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_inquire(dpt_context *context, const dpti_asked *asked,
                                         dpti_inquiry **out);
/* Accepts NULL.  An inquiry that hangs is never freed. */
void dpti_inquiry_destroy(dpti_inquiry *inquiry);

#endif
