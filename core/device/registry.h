/* The backends of a context: found as plug-ins, or added by a test. */
#ifndef DPTI_REGISTRY_H
#define DPTI_REGISTRY_H

#include "device/device.h"
#include "device/devstring.h"

/* A device that is there, open or not. */
typedef struct dpti_registry_device {
    char id[DPTI_ID_BYTES];    /* "cpu", "cuda:0" */
    char alias[DPTI_ID_BYTES]; /* "NAME:GROUP:0", or empty: it is in no group */
    dpt_status status;         /* of describe; info is valid if it is DPT_OK, else error tells */
    bool hung;                 /* it did not answer, then or when it was opened: error tells */
    dpt_device_info info;
    dpt_error error;
} dpti_registry_device;

/* A backend that is there, or that is absent for a reason. */
typedef struct dpti_registry_backend {
    char *name;
    char *reason;               /* NULL: it has devices */
    bool hung;                  /* the reason is that it did not answer */
    const dpt_backend *backend; /* NULL if the plug-in is broken; then there is a reason */
    size_t n_devices;
    dpti_registry_device *devices;
} dpti_registry_backend;

typedef struct dpti_registry {
    dpt_context *context; /* that it belongs to */
    size_t n_backends;
    dpti_registry_backend *backends; /* sorted by name, which are unique */
    char *searched;                  /* the folders where plug-ins were looked for, or NULL */
    char *list_text;                 /* the device list that was read last; NULL: none */
    dpti_device_list list;           /* list_text, parsed for this process */
} dpti_registry;

DPT_CHECK_RESULT dpt_status dpti_registry_create(dpt_context *context, dpti_registry **out);
void dpti_registry_destroy(dpti_registry *registry);

/* Loads the plug-ins of this machine.  A broken one becomes an absent backend, and so does one that
   does not answer; of devices that do not, those that did stay.  `devices`: a list that names those
   to load; NULL, or no list: all.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_registry_scan(dpti_registry *registry, const char *devices);

/* Adds a backend and asks it for its devices; what signals do stays as it is, whatever its library
   does to them.  `backend` lives as long as the process; if its
   descriptor is not sane the backend is absent for that reason.  DPT_E_INVALID if there is one of
   this name already; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_registry_add(dpti_registry *registry, const char *name,
                                              const dpt_backend *backend);
/* Adds a backend that cannot be used.  The same errors. */
DPT_CHECK_RESULT dpt_status dpti_registry_add_absent(dpti_registry *registry, const char *name,
                                                     const char *reason);
/* Reads a device list: takes this process's part of it (per_rank.h) and parses that.  The list that
   was read last is kept, so that finding plug-ins and opening devices parse a list once.  *out
   belongs to the registry until another list is read.  Fails as dpti_per_rank_list and
   dpti_device_list_parse do. */
DPT_CHECK_RESULT dpt_status dpti_registry_read_list(dpti_registry *registry, const char *text,
                                                    const dpti_device_list **out, dpt_error *error);
/* From now on the device counts as one that does not answer, and is not opened. */
void dpti_registry_give_up(dpti_registry *registry, const dpti_registry_backend *backend,
                           size_t index, const dpt_error *error);
/* NULL if there is none. */
const dpti_registry_backend *dpti_registry_find(const dpti_registry *registry, const char *name);

#endif
