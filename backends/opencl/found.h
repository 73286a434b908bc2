/* What is known of one device that OpenCL shows. */
#ifndef DPT_OPENCL_FOUND_H
#define DPT_OPENCL_FOUND_H

#include "opencl.h"

enum { DPT_CL_TEXT_BYTES = 128, DPT_CL_GROUP_BYTES = 16 };

typedef struct dpt_cl_found {
    cl_platform_id platform;
    cl_device_id id;
    unsigned platform_ordinal;      /* in the order of clGetPlatformIDs */
    unsigned device_ordinal;        /* in the order of clGetDeviceIDs */
    size_t index;                   /* the N of opencl:N */
    char group[DPT_CL_GROUP_BYTES]; /* the platform in one word: "pocl", "nvidia", "amd", "intel" */
    size_t index_in_group;          /* the N of opencl:GROUP:N */
    char name[DPT_CL_TEXT_BYTES];
    char vendor[DPT_CL_TEXT_BYTES];
    char driver[DPT_CL_TEXT_BYTES]; /* its version */
    char platform_name[DPT_CL_TEXT_BYTES];
    char version[DPT_CL_TEXT_BYTES]; /* CL_DEVICE_VERSION */
    bool is_cpu;                     /* a CPU: its memory is the host's, and groups are threads */
    bool is_host_cpu;                /* this machine's cores */
    unsigned compute_units;
    size_t memory_bytes;
    size_t max_alloc_bytes; /* CL_DEVICE_MAX_MEM_ALLOC_SIZE */
    size_t local_bytes;     /* CL_DEVICE_LOCAL_MEM_SIZE */
    size_t max_group;       /* CL_DEVICE_MAX_WORK_GROUP_SIZE */
    unsigned vector_width;  /* CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT; 1 on most GPUs */
    unsigned group_size;    /* GROUP of the portable kernels' programs on this device */
    bool divides_exactly;   /* / and sqrt can be compiled such that they round correctly */
    const char *varies; /* why there are no deterministic operators, or NULL (launch.h); static */
    unsigned char uuid[16]; /* zero if the driver does not tell */
    char pci_id[16];        /* empty if the driver does not tell */
} dpt_cl_found;

#endif
