/* What OpenCL finds on this machine: the devices of all platforms in a stable order, by the
   platforms' names and then as each platform numbers them.  Found once, at the first probe.
   Drivers are asked in a helper process before (contain.h). */
#ifndef DPT_OPENCL_PLATFORMS_H
#define DPT_OPENCL_PLATFORMS_H

#include "found.h"

typedef struct dpt_cl_platforms {
    size_t n_devices;
    dpt_cl_found *devices;
    dpt_error problem; /* DPT_E_ABSENT with the reason where there is none */
    char absent[400];  /* a platform whose driver did not survive the question, and its words;
                          empty: there is none */
} dpt_cl_platforms;

const dpt_cl_platforms *dpt_cl_platforms_get(void);

#endif
