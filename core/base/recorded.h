/* Which algorithms devices took, as logs and checkpoints record it. */
#ifndef DPTI_RECORDED_H
#define DPTI_RECORDED_H

#include "dpt_types.h"

/* The algorithm of one operation of a layer.  `kind` is the operation's name (dpti_op_name). */
typedef struct dpti_recorded_choice {
    char *layer, *kind, *algorithm;
} dpti_recorded_choice;

/* The algorithms of a program, in the program's order.  n is 0 if none are recorded. */
typedef struct dpti_recorded_choices {
    size_t n;
    dpti_recorded_choice *items;
} dpti_recorded_choices;

enum { DPTI_RECORDED_KIND_BYTES = 384 };

/* The algorithms of a device, and a description of the device: another device chooses its own. */
typedef struct dpti_recorded_device {
    char kind[DPTI_RECORDED_KIND_BYTES]; /* longer descriptions are cut */
    dpti_recorded_choices choices;
} dpti_recorded_device;

/* The algorithms of all devices of all processes.  n is 0 if none are recorded. */
typedef struct dpti_recorded_devices {
    size_t n;
    dpti_recorded_device *items; /* (n), owned */
} dpti_recorded_devices;

/* Accepts a zeroed list; sets it to zero. */
void dpti_recorded_devices_free(dpti_recorded_devices *devices);

/* Accepts a zeroed list; sets it to zero. */
void dpti_recorded_choices_free(dpti_recorded_choices *choices);
/* Makes an empty list with room for n.  false if memory is short. */
DPT_CHECK_RESULT bool dpti_recorded_choices_reserve(size_t n, dpti_recorded_choices *out);
/* Appends an entry with copies of these texts.  The caller has reserved room.  false if memory is
   short; nothing is appended then. */
DPT_CHECK_RESULT bool dpti_recorded_choices_add(dpti_recorded_choices *choices, const char *layer,
                                                const char *kind, const char *algorithm);
/* Copies a list.  false if memory is short; *out is empty then. */
DPT_CHECK_RESULT bool dpti_recorded_choices_copy(const dpti_recorded_choices *choices,
                                                 dpti_recorded_choices *out);
/* Returns whether two lists have the same entries in the same order. */
bool dpti_recorded_choices_equal(const dpti_recorded_choices *a, const dpti_recorded_choices *b);

#endif
