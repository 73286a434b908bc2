/* The parts of the backend's descriptor, which plugin.c puts together.  The file that defines each
   part stands beside the declaration. */
#ifndef DPT_CUDA_TABLES_H
#define DPT_CUDA_TABLES_H

#include "backend.h"

extern const dpt_device_ops dpt_cuda_device_ops;         /* device.c */
extern const dpt_param_spec dpt_cuda_param_specs[];      /* device.c */
extern const dpt_memory_ops dpt_cuda_memory_ops;         /* memory.c */
extern const dpt_stream_ops dpt_cuda_stream_ops;         /* stream.c */
extern const dpt_capture_ops dpt_cuda_capture_ops;       /* capture.c */
extern const dpt_collective_ops dpt_cuda_collective_ops; /* collective.c */

#endif
