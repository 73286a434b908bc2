/* Programs: kernels' source text, embedded when the backend is built, compiled for a device with
   options, and kept: in the device as long as it is open, on disk for the next start.

   The key on disk is a hash of the text (headers included), the options, the device's name and
   version and the driver's: whatever of these changes makes another key. */
#ifndef DPT_OPENCL_PROGRAM_H
#define DPT_OPENCL_PROGRAM_H

#include "contain.h"
#include "kernel.h"
#include "state.h"

/* dpt_kernel_get (backends/common/launch.h): the kernel comes from the device's own programs, from
   disk, or is compiled now.  A kernel is one object: its arguments are set and it is enqueued in
   one go.  If it does not compile, the record names device, file and options and has the first
   error of the build log; the whole log goes to a file that it names. The usual options:
   -cl-std=CL1.2 -w (some drivers print warnings) -DGROUP=n -DDEVICE_IS_CPU=0|1.
 */

/* A device's programs. */
DPT_CHECK_RESULT dpt_status dpt_cl_programs_create(dpt_device *device, dpt_cl_programs **out);
void dpt_cl_programs_destroy(dpt_cl_programs *programs); /* accepts NULL */

/* Compiles a program in the helper, which has to have it for launches.  DPT_E_NO_MEMORY or
   DPT_E_INTERNAL if it cannot be sent. */
DPT_CHECK_RESULT dpt_status dpt_cl_program_send(dpt_device *device, dpt_cl_program *program,
                                                dpt_cl_trial *out);

/* Records that a helper did not survive while it compiled `what`; returns the status:
   DPT_E_DEVICE_LOST, or DPT_E_DEVICE while candidates are timed. */
dpt_status dpt_cl_program_fatal(dpt_device *device, const char *what, const dpt_cl_trial *trial);

/* The embedded sources, by name; the build writes the table (embed.cmake).  Ends with a NULL name.
 */
typedef struct dpt_cl_source {
    const char *name;
    const unsigned char *text;
    size_t n_bytes;
} dpt_cl_source;
extern const dpt_cl_source dpt_cl_sources[];

#endif
