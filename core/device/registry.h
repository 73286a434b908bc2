/* The registry: the backends of a context, found as plug-ins or added by a test. */
#ifndef DPTI_REGISTRY_H
#define DPTI_REGISTRY_H

#include "device/device.h"
#include "device/devstring.h"

/* A device that exists, open or not. */
typedef struct dpti_registry_device {
    char id[DPTI_ID_BYTES];    /* "cpu", "cuda:0" */
    char alias[DPTI_ID_BYTES]; /* "NAME:GROUP:0"; empty if the device is in no group */
    dpt_status status;         /* of describe; DPT_OK: info is valid; else error has the reason */
    bool hung; /* it did not answer, in describe or when it was opened; error has the reason */
    dpt_device_properties info;
    dpt_error error;
} dpti_registry_device;

/* A backend that has devices, or that is absent for a reason. */
typedef struct dpti_registry_backend {
    char *name;
    char *reason;               /* why it is absent; NULL: it has devices */
    bool hung;                  /* it is absent because it did not answer */
    const dpt_backend *backend; /* NULL if the plug-in is broken; `reason` is then set */
    size_t n_devices;
    dpti_registry_device *devices;
} dpti_registry_backend;

typedef struct dpti_registry {
    dpt_context *context; /* the owner */
    size_t n_backends;
    dpti_registry_backend *backends; /* sorted by name; names are unique */
    char *searched;                  /* the folders that were searched for plug-ins, or NULL */
    char *list_text;                 /* the device list that was read last; NULL: none */
    dpti_device_list list;           /* list_text, parsed for this process */
} dpti_registry;

DPT_CHECK_RESULT dpt_status dpti_registry_create(dpt_context *context, dpti_registry **out);
void dpti_registry_destroy(dpti_registry *registry);

/* Loads the plug-ins of this machine.  A plug-in that is broken or does not answer becomes an
   absent backend.  If a device of a backend does not answer, the devices before it stay.  `devices`
   is a device list that names the backends to load; NULL, or a text that is no list: all backends.
   DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_registry_scan(dpti_registry *registry, const char *devices);

/* Adds a backend and asks it for its devices.  The process's signal handlers are restored
   afterwards, whatever the vendor's library does to them.  `backend` lives as long as the process.
   If its descriptor is invalid, the backend is absent for that reason.  DPT_E_INVALID if there is a
   backend of this name already; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_registry_add(dpti_registry *registry, const char *name,
                                              const dpt_backend *backend);
/* Adds an absent backend.  Fails as dpti_registry_add does. */
DPT_CHECK_RESULT dpt_status dpti_registry_add_absent(dpti_registry *registry, const char *name,
                                                     const char *reason);
/* Reads a device list: takes this process's part of it (per_rank.h) and parses that.  The list that
   was read last is kept, so that finding plug-ins and opening devices parse a list once.  *out
   belongs to the registry until another list is read.  Fails as dpti_per_rank_list and
   dpti_device_list_parse do. */
DPT_CHECK_RESULT dpt_status dpti_registry_read_list(dpti_registry *registry, const char *text,
                                                    const dpti_device_list **out, dpt_error *error);
/* Marks a device as hung: it is not opened any more. */
void dpti_registry_give_up(dpti_registry *registry, const dpti_registry_backend *backend,
                           size_t index, const dpt_error *error);
/* Returns NULL if there is no backend of this name. */
const dpti_registry_backend *dpti_registry_find(const dpti_registry *registry, const char *name);

#endif
