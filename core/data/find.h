/* Where the files of a data set lie. */
#ifndef DPTI_FIND_H
#define DPTI_FIND_H

#include "backend.h"
#include "dptrain.h"

/* An images file and the labels file that belongs to it. */
typedef struct dpti_idx_pair {
    char *directory, *images, *labels; /* paths, owned */
} dpti_idx_pair;

/* Looks for the two files of a part, gzipped or not, with dashes or dots in their names, in
   `directory` if it is given, else in $DPTRAIN_DATA, the user's cache and the folder of the
   distribution's package.  DPT_E_NOT_FOUND says where it looked and how to get the data. */
DPT_CHECK_RESULT dpt_status dpti_find_idx(const char *dataset, const char *directory, dpt_part part,
                                          dpti_idx_pair *out, dpt_error *error);
/* Accepts a zeroed pair. */
void dpti_idx_pair_free(dpti_idx_pair *pair);

#endif
