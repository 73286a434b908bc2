/* Checks what a backend says about itself before anything of it is used. */
#ifndef DPTI_DESCRIPTOR_H
#define DPTI_DESCRIPTOR_H

#include "backend.h"

/* Returns whether a name may stand in a device list: [a-z][a-z0-9_-]*, not "all", at most 31
   characters. */
bool dpti_backend_name_valid(const char *name);
/* Returns whether a name may be the group of a device: [a-z][a-z0-9]*, not "all", at most 15
   characters. */
bool dpti_group_name_valid(const char *name);
/* Checks a descriptor: ABI number, name, required tables and entries, declarations of parameters.
   DPT_E_UNSUPPORTED or DPT_E_INVALID with the reason in *error. */
DPT_CHECK_RESULT dpt_status dpti_descriptor_check(const char *name, const dpt_backend *backend,
                                                  dpt_error *error);

#endif
