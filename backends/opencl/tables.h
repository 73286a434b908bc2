/* The parts of the backend's descriptor, which plugin.c puts together.  The file that defines each
   part stands beside the declaration. */
#ifndef DPT_OPENCL_TABLES_H
#define DPT_OPENCL_TABLES_H

#include "backend.h"

extern const dpt_device_ops dpt_cl_device_ops;    /* device.c */
extern const dpt_param_spec dpt_cl_param_specs[]; /* device.c */
extern const dpt_memory_ops dpt_cl_memory_ops;    /* memory.c */
extern const dpt_stream_ops dpt_cl_stream_ops;    /* stream.c */

#endif
