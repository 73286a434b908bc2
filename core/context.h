/* Contexts, beyond the public API. */
#ifndef DPTI_CONTEXT_H
#define DPTI_CONTEXT_H

#include "device/device.h"

/* A context that has looked for no plug-ins: its backends are those that are added to its registry
   (device/registry.h).  For tests. */
DPT_CHECK_RESULT dpt_status dpti_context_create_empty(dpt_context **out);

#endif
