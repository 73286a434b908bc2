/* The grammar of device lists.  Knows no devices: what a list names is for select.h to find.

       list   = entry *("," entry)
       entry  = "all" / name [":" group] [":" (index / "all")] *(":" key "=" value)

   Case counts.  No spaces.  A name without an index means index 0; the index behind a group counts
   the devices of that group.  A group begins with a letter, and which there are is for the
   backend to say.  `memory` and `throttle` are
   core's parameters and are read here; all others belong to the backend. */
#ifndef DPTI_DEVSTRING_H
#define DPTI_DEVSTRING_H

#include "backend.h"
#include "device/device.h"

enum { DPTI_MAX_ENTRIES = 256, DPTI_MAX_ENTRY_PARAMS = 16, DPTI_MAX_LIST_BYTES = 16384 };

typedef enum dpti_entry_kind {
    DPTI_ENTRY_ONE,     /* name, name:index, name:group, name:group:index */
    DPTI_ENTRY_SEVERAL, /* name:all, name:group:all */
    DPTI_ENTRY_ALL,     /* all */
} dpti_entry_kind;

typedef struct dpti_device_entry {
    dpti_entry_kind kind;
    char id[DPTI_ID_BYTES];                  /* the entry as it stands in the list */
    const char *suffix;                      /* its parameters, within id: ":memory=2G", or "" */
    const char *name;                        /* of the backend; NULL for "all" */
    const char *group;                       /* NULL: none */
    size_t index;                            /* of the backend's devices, or of the group's */
    size_t memory_limit_bytes;               /* SIZE_MAX if not set */
    double throttle;                         /* at least 1 */
    dpt_param params[DPTI_MAX_ENTRY_PARAMS]; /* the backend's own */
    size_t n_params;
} dpti_device_entry;

typedef struct dpti_device_list {
    size_t n_entries; /* at least 1 */
    dpti_device_entry *entries;
    char *text; /* what name, group and params point into */
} dpti_device_list;

/* DPT_E_INVALID, with the entry and what is wrong with it in *error; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_device_list_parse(const char *text, dpti_device_list *out,
                                                   dpt_error *error);
void dpti_device_list_free(dpti_device_list *list); /* accepts a zeroed one; zeroes it */

#endif
