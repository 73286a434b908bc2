/* Creates and destroys contexts.  This file is above the rooms of core: a context owns a registry
   of backends and the link to other processes. */
#ifndef DPTI_CONTEXT_CREATE_H
#define DPTI_CONTEXT_CREATE_H

#include "dptrain.h"

/* Creates a context that has looked for no plug-ins: its backends are those that are added to its
   registry (device/registry.h).  For tests.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_context_create_empty(dpt_context **out);

#endif
