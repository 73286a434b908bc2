/* Labels that do not begin at 0: they are told, and shifted if the name of the data set asks. */
#ifndef DPTI_FIRST_LABEL_H
#define DPTI_FIRST_LABEL_H

#include "data/data.h"

/* Cuts ":labels-from=N" off the end of a name.  *base gets the name before it, which the caller
   frees, and *first gets N; without these words the whole name and 0.  Errors: DPT_E_INVALID if N
   is no number from 1 to DPTI_MAX_CLASSES - 1; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_first_label_parse(const char *name, char **base, size_t *first,
                                                   dpt_error *error);

/* Makes label `first` class 0, the next one class 1, and so on, and puts the words behind the name
   of the data set.  Classes without names get their labels as names.  The data set is a whole one.
   Errors: DPT_E_FORMAT for a label below `first`; DPT_E_INVALID for data without labels of a file;
   DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_first_label_shift(dpt_dataset *data, size_t first,
                                                   dpt_error *error);

/* Gives the context a notice if training data have labels and none is 0.  Other data, and data
   whose labels are not known, pass. */
void dpti_first_label_tell(const dpt_dataset *data, const dpt_context *context);

#endif
