/* Programs: kernels' source text, embedded when the backend is built, compiled for a device with
   options, and kept: in the device as long as it is open, on disk for the next start.

   The key on disk is a hash of the text (headers included), the options, the device's name and
   version and the driver's: whatever of these changes makes another key. */
#ifndef DPT_OPENCL_PROGRAM_H
#define DPT_OPENCL_PROGRAM_H

#include "cache.h"
#include "device.h"
#include "launch.h"

/* dpt_kernel_get (backends/common/launch.h): the kernel comes from the device's own programs, from
   disk, or is compiled now.  A kernel is one object: its arguments are set and it is enqueued in
   one go.  If it does not compile, the record names device, file and options and has the first
   error of the build log; the whole log goes to a file that it names. The usual options:
   -cl-std=CL1.2 -w (some drivers print warnings) -DGROUP=n -DDEVICE_IS_CPU=0|1.
 */

typedef struct dpt_cl_launch_size dpt_cl_launch_size; /* trial.h */
typedef struct dpt_cl_program dpt_cl_program;

struct dpt_kernel {
    cl_kernel handle;
    char *name;
    dpt_cl_program *program;
    dpt_cl_launch_size *launches; /* (n_launches) that need no trial any more */
    size_t n_launches;
    struct dpt_kernel *next;
};

struct dpt_cl_program {
    dpt_program_key key; /* its file is embedded and so static */
    cl_program program;
    uint64_t id;                    /* of source and options, not 0 */
    char file[DPT_HASH_CHARS + 24]; /* in the cache */
    bool stored;                    /* it is there, or cannot be had */
    char *tried;                    /* the cache's lines of launches (trial.h), or NULL */
    dpt_kernel *kernels;
    struct dpt_cl_program *next;
};

/* A device's programs. */
DPT_CHECK_RESULT dpt_status dpt_cl_programs_create(dpt_device *device, dpt_cl_programs **out);
void dpt_cl_programs_destroy(dpt_cl_programs *programs); /* accepts NULL */

/* The embedded sources, by name; the build writes the table (embed.cmake).  Ends with a NULL name.
 */
typedef struct dpt_cl_source {
    const char *name;
    const unsigned char *text;
    size_t n_bytes;
} dpt_cl_source;
extern const dpt_cl_source dpt_cl_sources[];

#endif
