/* Backends, devices and device sets: which devices exist, opening and describing them, and their
   measured rates.
   Part of the public API: programs include dptrain.h. */
#ifndef DPTRAIN_DEVICE_H
#define DPTRAIN_DEVICE_H

#include "dptrain/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dpt_device dpt_device;
typedef struct dpt_device_set dpt_device_set;

/* Returns the number of backends, absent backends included.  Backends are numbered from 0 in the
   order of their names.  Cannot fail. */
DPT_API size_t dpt_backend_count(const dpt_context *context);
/* Returns the name of a backend, or NULL if `backend` is not below the count.  Cannot fail. */
DPT_API const char *dpt_backend_name(const dpt_context *context, size_t backend);
/* Returns the state of a backend.  DPT_OK: the backend has devices.  DPT_E_ABSENT: the backend has
   no usable device.  DPT_E_DEVICE_LOST: the backend did not answer when the library asked for its
   devices; a thread still waits in that call (dpt_context_abandoned).  DPT_E_INVALID: `backend` is
   not below the count. */
DPT_API dpt_status dpt_backend_status(const dpt_context *context, size_t backend);
/* Returns the reason why no device of a backend can be used, or NULL if a device can be used.
   Cannot fail. */
DPT_API const char *dpt_backend_reason(const dpt_context *context, size_t backend);
/* Returns the number of devices of a backend; 0 if there is no such backend.  Cannot fail. */
DPT_API size_t dpt_backend_device_count(const dpt_context *context, size_t backend);

typedef struct dpt_device_info {
    size_t size;    /* sizeof(dpt_device_info), to be set before the call */
    const char *id; /* "cpu", "cuda:0"; for an open device, the text from the device list */
    const char
        *alias; /* "NAME:GROUP:0": the name by the device group; "" if the device is in no group */
    const char *backend; /* "cpu" */
    const char *name;    /* "AMD EPYC 9454" */
    const char *detail;  /* driver, libraries, kernels */
    size_t memory_bytes; /* the device's memory, or the limit that was set */
    unsigned n_threads;  /* threads or compute units, 0 if unknown */
    size_t process;      /* the rank of the process that owns the device */
    const char *host;    /* the name of that process's machine; NULL with one process */
    size_t island; /* from dpt_trainer_device only: the number of the device's island, from 1; 0:
                      the device is in no island, and its gradients are summed through the host */
} dpt_device_info;

/* Describes a device without opening the device.  The strings in *out stay valid as long as the
   context.  Errors: the backend's own failure for this device; DPT_E_DEVICE_LOST if the device did
   not answer this call or an earlier attempt to open the device. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_backend_describe(dpt_context *context, size_t backend,
                                                         size_t index, dpt_device_info *out);

/* Opens the devices of a list such as "cpu", "cpu:threads=2,cuda:0:memory=2G" or "all".
   docs/devices.md has the grammar.  NULL means "all".  A list may name the same device twice. "all"
   leaves out a device that does not answer, unless no other device exists; dpt_backend_status and
   dpt_backend_describe tell which one.  The caller closes `out` with dpt_device_set_close.

   Several processes may pass one text that has a list for each process, such as
   "@0=cuda:0;@1=cpu"; docs/processes.md has the grammar.  A process opens the list of its rank,
   else the list of its host, else the list of "@*".  Before dpt_processes_join, the rank is the one
   in the launcher's environment variable.

   Errors: DPT_E_INVALID if the list does not follow the grammar, names an unknown backend or
   parameter, has an index or a value out of range, or has two lists or no list for this process.
   DPT_E_ABSENT if a named backend has no driver or no device.  DPT_E_DEVICE_LOST if a named device,
   or the device's backend, did not answer; this context does not ask that device again.
   DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_device_set_open(dpt_context *context, const char *list,
                                                        dpt_device_set **out);
/* Sets the precision of the devices that are opened after this call.  The precision= parameter of a
   device in the list takes priority.  A device that does not know the precision computes in
   float32, which is not less exact.  NULL or "fp32": all devices compute in true float32.  Errors:
   DPT_E_NO_MEMORY.  A later dpt_device_set_open gives DPT_E_INVALID if no device of the list
   belongs to a backend that knows the precision, and DPT_E_UNSUPPORTED if a device cannot compute
   in it. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_context_set_precision(dpt_context *context,
                                                              const char *name);
/* Makes a subset of an open device set.  The subset holds the devices at `indices` (n entries), in
   that order.  A device keeps the cores and the memory that the device has in the whole set, so
   that speeds in the subset and in the set are comparable.  The caller closes the subset before the
   set.  Closing the subset closes no device.  Trainers on different subsets may exist at the same
   time; a device works for one trainer at a time.
   Errors: DPT_E_INVALID if n is 0, an index is out of range or an index is repeated;
   DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_device_set_subset(dpt_device_set *devices,
                                                          const size_t *indices, size_t n,
                                                          dpt_device_set **out);
/* Closes a device set.  Accepts NULL.  A device that does not answer stays open and a thread stays
   with the hung call (dpt_context_abandoned).  Cannot fail. */
DPT_API void dpt_device_set_close(dpt_device_set *devices);
/* Returns the number of devices in a set.  Cannot fail. */
DPT_API size_t dpt_device_set_count(const dpt_device_set *devices);
/* Returns device i of a set, or NULL if i is not below the count.  The set owns the device.
   Cannot fail. */
DPT_API dpt_device *dpt_device_set_get(const dpt_device_set *devices, size_t i);
/* Describes an open device.  Cannot fail. */
DPT_API void dpt_device_describe(const dpt_device *device, dpt_device_info *out);

/* The measured rates of a device, by the host's clock and with waiting times included.  Each rate
   is the median of several measurements. */
typedef struct dpt_device_rates {
    size_t size;  /* sizeof(dpt_device_rates), to be set before the call */
    double flops; /* floating-point operations per second of a float32 matrix product; an n by n
                     product has 2 n^3 operations; n is 1024, or less on a slow device */
    double upload_bytes;   /* bytes per second from host memory that the device's backend has
                              allocated */
    double download_bytes; /* bytes per second to such host memory */
    double copy_bytes; /* bytes per second from one place of the device's memory to another; each
                          byte counts once */
    bool host_memory;  /* the device uses the host's memory: uploads and downloads are copies within
                          that memory */
} dpt_device_rates;

/* Measures the rates of an open device and waits for the result.  The measurement starts after all
   work that the device has in its queue.  The measurement takes about a second and up to 128 MiB of
   the device's memory.  The throttle= parameter is ignored.  Errors: the device's own failures;
   DPT_E_UNSUPPORTED if the device has no matrix product. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_device_measure(dpt_device *device, dpt_device_rates *out);

/* Waits until every queue of every device of the set is empty.  Errors: the first failing device's
   failure; DPT_E_DEVICE_LOST if a device does not answer in time; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_device_set_wait(dpt_device_set *devices);

#ifdef __cplusplus
}
#endif

#endif
