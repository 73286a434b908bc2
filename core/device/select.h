/* From a device list to the devices that it means.  Reads the registry and calls no backend. */
#ifndef DPTI_SELECT_H
#define DPTI_SELECT_H

#include "device/device.h"
#include "device/devstring.h"
#include "device/registry.h"

/* One device to open; points into the registry and the list. */
typedef struct dpti_selected {
    char id[DPTI_ID_BYTES];
    const dpti_registry_backend *backend;
    size_t index;
    const dpti_device_entry *entry;              /* its limits */
    dpt_param params[DPTI_MAX_ENTRY_PARAMS + 1]; /* the backend's own */
    size_t n_params;
} dpti_selected;

typedef struct dpti_selection {
    size_t n_devices; /* 1 to DPTI_MAX_ENTRIES */
    dpti_selected *devices;
} dpti_selection;

/* "all" means every device of every backend, but each piece of hardware once: a device is left out
   if another has its compute domain, its PCI id or its UUID, or if both are the host's cores, of
   different backends.  Of those a backend for which host
   memory is the device's own memory is kept before one that reaches the same cores through another
   API, and otherwise the first by name and index.

   DPT_E_INVALID: unknown backend, group or parameter, index out of range, too many devices.
   DPT_E_ABSENT: a named backend, or all of them, with the reasons.  DPT_E_DEVICE_LOST: one that was
   named did not answer; or all are absent, and one of them for that reason.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_select(const dpti_registry *registry, const dpti_device_list *list,
                                        dpti_selection *out, dpt_error *error);
/* Devices of backends whose parameter "precision" takes this value get it where the list gives
   none, in their ids too; the others compute in float32.  `name` outlives the selection.
   DPT_E_UNSUPPORTED: no device takes it. */
DPT_CHECK_RESULT dpt_status dpti_selection_set_precision(dpti_selection *selection,
                                                         const char *name, dpt_error *error);
void dpti_selection_free(dpti_selection *selection); /* accepts a zeroed one; zeroes it */

#endif
