/* Algorithms as JSON: [[layer, kind, algorithm], ...]. */
#ifndef DPTI_RECORDED_JSON_H
#define DPTI_RECORDED_JSON_H

#include "backend.h"
#include "base/recorded.h"

#include <jansson.h>

/* NULL without memory, or where a text is no UTF-8. */
json_t *dpti_recorded_encode(const dpti_recorded_choices *choices);
/* An empty list, or none, is none that are recorded.  DPT_E_FORMAT if one is not of three texts,
   DPT_E_NO_MEMORY; *out is to be freed, then too. */
DPT_CHECK_RESULT dpt_status dpti_recorded_decode(const json_t *list, dpti_recorded_choices *out);

#endif
