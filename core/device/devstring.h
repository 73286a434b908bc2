/* The grammar of device lists.  The parser knows no devices; select.h finds what a list names.

       list   = entry *("," entry)
       entry  = "all" / name [":" group] [":" (index / "all")] *(":" key "=" value)

   Case counts.  There are no spaces.  A name without an index means index 0.  An index after a
   group counts the devices of that group.  A group begins with a letter; the backend says which
   groups there are.  `memory` and `throttle` are parameters of core and are parsed here; all other
   parameters belong to the backend. */
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

/* One `key=value` of an entry, as it is written. */
typedef struct dpti_entry_param {
    const char *key, *text;
} dpti_entry_param;

typedef struct dpti_device_entry {
    dpti_entry_kind kind;
    char id[DPTI_ID_BYTES];    /* the entry as it is written in the list */
    const char *suffix;        /* its parameters, within id: ":memory=2G", or "" */
    const char *name;          /* of the backend; NULL for "all" */
    const char *group;         /* NULL: none */
    size_t index;              /* of the backend's devices, or of the group's */
    size_t memory_limit_bytes; /* SIZE_MAX if not set */
    double throttle;           /* at least 1 */
    /* The parameters of the backend.  select.h parses their values, as the backend declares. */
    dpti_entry_param params[DPTI_MAX_ENTRY_PARAMS];
    size_t n_params;
} dpti_device_entry;

typedef struct dpti_device_list {
    size_t n_entries; /* at least 1 */
    dpti_device_entry *entries;
    char *text; /* the memory that name, group and params point into */
} dpti_device_list;

/* Parses a list.  DPT_E_INVALID, with the entry and what is wrong with it in *error;
 * DPT_E_NO_MEMORY.
 */
DPT_CHECK_RESULT dpt_status dpti_device_list_parse(const char *text, dpti_device_list *out,
                                                   dpt_error *error);
void dpti_device_list_free(dpti_device_list *list); /* accepts a zeroed struct; zeroes it */

#endif
