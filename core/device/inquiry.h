/* Asking a backend for its devices, before any is open.  Its driver may not answer: so a thread of
   its own asks, which is given up then. */
#ifndef DPTI_INQUIRY_H
#define DPTI_INQUIRY_H

#include "device/device.h"

enum { DPTI_MAX_DEVICES_PER_BACKEND = 1024 };

/* What is told of one device. */
typedef struct dpti_answer {
    dpt_status status; /* of describe; info is valid if it is DPT_OK, else error tells */
    dpt_device_info info;
    dpt_error error;
} dpti_answer;

typedef struct dpti_inquiry {
    dpti_device asked; /* first; stands for the backend: its driver asks */
    char *path;        /* the plug-in to load; NULL: the backend is there */
    const dpt_backend *backend;
    dpti_answer answer; /* what a call is given, */
    size_t n_found;     /* likewise */
    /* What came of it. */
    bool hung;        /* a call did not answer: load or probe, or describe of the next device */
    dpt_error error;  /* why there is no device, or that call's; status DPT_OK: nothing failed */
    size_t n_devices; /* 0, or as many as there are, */
    size_t n_answers; /* of which the first so many have answered */
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
/* Accepts NULL.  What hangs is left behind. */
void dpti_inquiry_destroy(dpti_inquiry *inquiry);

#endif
