/* Compiles one program of a device: from the cache on disk, in the helper process, or in this
   process.

   The key on disk is a hash of the source text with its headers, of the options, of the name and
   the version of the device, and of the version of the driver.  A change of any of these makes
   another key. */
#ifndef DPT_OPENCL_COMPILE_H
#define DPT_OPENCL_COMPILE_H

#include "contain.h"
#include "kernel.h"
#include "state.h"

/* Locks the compiler of a device that is a CPU until dpt_cache_unlock, against other processes of
   this user.  PoCL keeps files of the programs that it compiles in a folder that all processes
   share, and makes a program's binary of them.  A binary that is made while another process
   compiles the same program can be one that ends the process that loads it (PoCL 3.1).  Returns a
   negative number if the device is no CPU or there is no cache. */
int dpt_cl_program_lock(const dpt_device *device);

/* Compiles entry->key and fills in the other members of the entry but its kernels.  The options are
   those of the key and -cl-std=CL1.2 -w (some drivers print warnings) -DGROUP=n
   -DDEVICE_IS_CPU=0|1.  For deterministic operators divisions and square roots are compiled such
   that they round correctly, if the device can, and are built of integers (exact.h) otherwise.
   DPT_E_DEVICE: the source does not compile; the record names the device, the file and the first
   error of the build log, and the file that has the whole log. DPT_E_DEVICE_LOST as
   dpt_cl_program_fatal; DPT_E_INTERNAL; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpt_cl_program_make(dpt_device *device, dpt_cl_program *entry);

/* Writes the binary of a program that was compiled only to be timed to the cache. */
void dpt_cl_program_store(dpt_device *device, dpt_cl_program *entry);

/* Compiles a program in the helper, which needs the program before it can launch the program's
   kernels.  DPT_E_NO_MEMORY or DPT_E_INTERNAL if the program cannot be sent. */
DPT_CHECK_RESULT dpt_status dpt_cl_program_send(dpt_device *device, dpt_cl_program *program,
                                                dpt_cl_trial *out);

/* Records that a helper process ended while it compiled `what`.  Returns the recorded status:
   DPT_E_DEVICE_LOST, or DPT_E_DEVICE while candidates are timed. */
dpt_status dpt_cl_program_fatal(dpt_device *device, const char *what, const dpt_cl_trial *trial);

#endif
