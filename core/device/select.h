/* Finds the devices that a device list means, and parses the parameters of their backends.  Reads
   the registry and calls no backend. */
#ifndef DPTI_SELECT_H
#define DPTI_SELECT_H

#include "device/device.h"
#include "device/devstring.h"
#include "device/registry.h"

/* One device to open.  The pointers point into the registry and the list. */
typedef struct dpti_selected {
    char id[DPTI_ID_BYTES];
    const dpti_registry_backend *backend;
    size_t index;
    const dpti_device_entry *entry;          /* its entry of the list */
    dpt_param params[DPTI_MAX_ENTRY_PARAMS]; /* the parameters of the backend but precision= */
    size_t n_params;
    dpt_precision precision; /* DPT_PRECISION_FP32 if has_precision is false */
    bool has_precision;      /* the entry has precision=, or dpti_selection_set_precision gave it */
} dpti_selected;

typedef struct dpti_selection {
    size_t n_devices; /* 1 to DPTI_MAX_ENTRIES */
    dpti_selected *devices;
} dpti_selection;

/* Selects devices.  "all" means every device of every backend, but each piece of hardware once.  A
   device is left out if a selected device has the same compute domain, PCI id or UUID, or if both
   are the host's cores and belong to different backends.  Of two such devices, the selected one is
   the device whose own memory is host memory, else the first by backend name and index.

   DPT_E_INVALID: unknown backend, group or parameter, value that the parameter does not take,
   index out of range, too many devices.
   DPT_E_ABSENT: a named backend is absent, or all are; the message has the reasons.
   DPT_E_DEVICE_LOST: a named device did not answer, or all are absent and one of them for that
   reason.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_select(const dpti_registry *registry, const dpti_device_list *list,
                                        dpti_selection *out, dpt_error *error);
/* Gives the devices that can compute in the precision `name` this precision, unless the list gives
   them one; it is then part of their ids.  The other devices compute in float32.  DPT_E_INVALID: no
   device takes this precision, or an id becomes too long. */
DPT_CHECK_RESULT dpt_status dpti_selection_set_precision(dpti_selection *selection,
                                                         const char *name, dpt_error *error);
void dpti_selection_free(dpti_selection *selection); /* accepts a zeroed struct; zeroes it */

#endif
