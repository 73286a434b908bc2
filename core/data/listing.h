/* The entries of a folder, in an order that is the same on every file system. */
#ifndef DPTI_LISTING_H
#define DPTI_LISTING_H

#include "dpt_error.h"

typedef enum dpti_listing_kind {
    DPTI_LIST_FOLDERS, /* other things are passed over */
    DPTI_LIST_FILES,   /* a folder is an error */
} dpti_listing_kind;

/* Names without their folder, sorted by their bytes. */
typedef struct dpti_listing {
    size_t count, capacity;
    char **names; /* owned */
} dpti_listing;

/* Lists what is not hidden (by a dot in front).  A link is what it leads to; one that leads
   nowhere, or in a circle, is an error.  DPT_E_NOT_FOUND, DPT_E_IO, DPT_E_NO_MEMORY; DPT_E_FORMAT:
   a folder among the files. */
DPT_CHECK_RESULT dpt_status dpti_listing_read(const char *folder, dpti_listing_kind kind,
                                              dpti_listing *out, dpt_error *error);
/* Whether a listing has a name, and where. */
bool dpti_listing_find(const dpti_listing *listing, const char *name, size_t *at);
/* Accepts a zeroed one. */
void dpti_listing_free(dpti_listing *listing);

#endif
