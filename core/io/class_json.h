/* A classification as JSON (docs/metrics.md). */
#ifndef DPTI_CLASS_JSON_H
#define DPTI_CLASS_JSON_H

#include "base/classification.h"

#include <jansson.h>

enum { DPTI_LOGGED_CLASSES = 50 };

/* Returns an object, which the caller owns; NULL if there is no memory.  `short_form`: the
   confusion matrix is left out if there are more than DPTI_LOGGED_CLASSES classes. */
json_t *dpti_class_json(const dpt_classification *classification, bool short_form);

#endif
