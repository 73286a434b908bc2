/* The parts of the backend's descriptor, which plugin.c puts together.  The file that defines each
   part stands beside the declaration. */
#ifndef DPT_CPU_TABLES_H
#define DPT_CPU_TABLES_H

#include "backend.h"

extern const dpt_device_ops dpt_cpu_device_ops;     /* device.c */
extern const dpt_param_spec dpt_cpu_params[];       /* device.c */
extern const dpt_memory_ops dpt_cpu_memory_ops;     /* memory.c */
extern const dpt_stream_ops dpt_cpu_stream_ops;     /* stream.c */
extern const dpt_operator_ops dpt_cpu_operator_ops; /* operator_ops.c */
extern const dpt_capture_ops dpt_cpu_capture_ops;   /* capture.c */

#endif
