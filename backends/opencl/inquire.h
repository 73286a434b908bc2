/* What a driver says of its platforms and devices.  Linked by the plug-in and by its helper. */
#ifndef DPT_OPENCL_INQUIRE_H
#define DPT_OPENCL_INQUIRE_H

#include "found.h"

enum { DPT_CL_MOST_DEVICES = 256, DPT_CL_ASKED_PLATFORMS = 32 };

/* The ids of all platforms, at most DPT_CL_ASKED_PLATFORMS, and their number: the code of
   clGetPlatformIDs. */
cl_int dpt_cl_ask_platforms(cl_platform_id *ids, cl_uint *n);
/* The name of a platform, "other" if it does not tell. */
void dpt_cl_ask_platform_name(cl_platform_id platform, char out[DPT_CL_TEXT_BYTES]);
/* The ids of a platform's devices, at most DPT_CL_MOST_DEVICES; 0 if it fails. */
cl_uint dpt_cl_ask_device_ids(cl_platform_id platform, cl_device_id *ids);
/* Everything about a device but its indices.  false: it cannot be used. */
bool dpt_cl_ask_device(cl_platform_id platform, cl_device_id id, dpt_cl_found *out);

#endif
