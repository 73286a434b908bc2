/* Recorded algorithms as JSON: [[layer, kind, algorithm], ...]. */
#ifndef DPTI_RECORDED_JSON_H
#define DPTI_RECORDED_JSON_H

#include "base/recorded.h"
#include "dpt_types.h"

#include <jansson.h>

/* Returns NULL if there is no memory or a text is not UTF-8. */
json_t *dpti_recorded_encode(const dpti_recorded_choices *choices);
/* A missing or empty list means that no algorithms were recorded.  The caller frees `out`, also
   after a failure.  Errors: DPT_E_FORMAT if an entry is not three texts; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_recorded_decode(const json_t *list, dpti_recorded_choices *out);

#endif
