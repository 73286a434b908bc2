/* The entries of a folder, in an order that is the same on every file system. */
#ifndef DPTI_LISTING_H
#define DPTI_LISTING_H

#include "dpt_error.h"

typedef enum dpti_listing_kind {
    DPTI_LIST_FOLDERS, /* entries that are not folders are skipped */
    DPTI_LIST_FILES,   /* a folder is an error */
    DPTI_LIST_ALL,     /* whatever they are; links are not followed */
} dpti_listing_kind;

/* The names of a folder's entries, without the folder, sorted by their bytes. */
typedef struct dpti_listing {
    size_t count, capacity;
    char **names; /* owned */
} dpti_listing;

/* Lists the entries whose names do not begin with a dot.  A link counts as its target; a link
   without a target, or in a circle, is an error.  Errors: DPT_E_NOT_FOUND; DPT_E_IO;
   DPT_E_NO_MEMORY; DPT_E_FORMAT for a folder among files. */
DPT_CHECK_RESULT dpt_status dpti_listing_read(const char *folder, dpti_listing_kind kind,
                                              dpti_listing *out, dpt_error *error);
/* Lists the folders that are `depth` folders below this one, by their paths below it, such as
   "animals/cat" for 2.  Files beside folders are skipped.  Errors: as of dpti_listing_read. */
DPT_CHECK_RESULT dpt_status dpti_listing_below(const char *folder, size_t depth, dpti_listing *out,
                                               dpt_error *error);
/* Returns whether a listing has a name, and at which index. */
bool dpti_listing_find(const dpti_listing *listing, const char *name, size_t *at);
/* Accepts a zeroed struct. */
void dpti_listing_free(dpti_listing *listing);

#endif
