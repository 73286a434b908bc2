/* The binary interface between core and a backend: its version, the tables of functions for
   devices, memory, streams, captures and collectives, and the descriptor that holds these tables.
   The table of operators is operators.h.

   A backend includes backend.h, which includes this header. */
#ifndef DPT_BACKEND_ABI_H
#define DPT_BACKEND_ABI_H

#include "dpt_error.h"
#include "dpt_types.h"

/* The version of everything that backend.h includes.  Every change of a struct, of an enumeration
   or of a function's contract raises the number.  Core refuses a backend of another version.
   Version 20 adds dpt_op_request.deterministic; version 21 adds dpt_op_args.grain;
   version 22 adds DPT_PART; version 25 adds rotation and jitter to dpt_augment;
   version 26 adds RandAugment. */
#define DPT_BACKEND_ABI 26u

/* ---- Devices --------------------------------------------------------------------------------- */

typedef struct dpt_backend dpt_backend;

/* What a backend sees of a device.  Core allocates the struct, sets it to zero before `open`, and
   frees it after `close`.  `state` belongs to the backend. */
typedef struct dpt_device {
    const dpt_backend *backend;
    void *state;
    dpt_error error;
} dpt_device;

/* What the value of a parameter is.  Core parses a value once, as its parameter declares. */
typedef enum dpt_param_type {
    DPT_PARAM_TEXT = 0,  /* any text; the backend checks it when the device is opened */
    DPT_PARAM_NUMBER,    /* an integer from `min` to `max`, in decimal digits */
    DPT_PARAM_CHOICE,    /* one of `choices` */
    DPT_PARAM_PRECISION, /* one of `precisions`; only the key "precision" has this type */
} dpt_param_type;

/* How a device computes and what it stores.  All sums are float32. */
typedef enum dpt_precision {
    DPT_PRECISION_FP32 = 0, /* products and convolutions compute with float32 */
    DPT_PRECISION_TF32 = 1, /* their inputs may be rounded to 11 bits */
    /* Activations are stored as bfloat16.  Weights may be rounded to bfloat16 for products and
       convolutions. */
    DPT_PRECISION_BF16 = 2,
    DPT_PRECISION_COUNT
} dpt_precision;
/* The names of the values, in their order. */
#define DPT_PRECISION_NAMES "fp32", "tf32", "bf16"

/* One parameter of a device string, checked and parsed.  Texts are NUL-terminated. */
typedef struct dpt_param {
    const char *key;
    const char *text; /* the value as it was written, not empty */
    size_t number;    /* DPT_PARAM_NUMBER: the value; DPT_PARAM_CHOICE: its index in `choices` */
} dpt_param;

/* One entry of the device list that belongs to this backend. */
typedef struct dpt_device_request {
    size_t index; /* the N of NAME:N */
    /* From precision= of the entry or from the option for all devices.  It is one that the backend
       declares, or DPT_PRECISION_FP32. */
    dpt_precision precision;
    /* The backend's other parameters, each key at most once.  All are declared and within their
       bounds.  Core has removed `memory`, `throttle` and `precision`. */
    const dpt_param *params;
    size_t n_params;
} dpt_device_request;

/* All entries of this backend that a run opens, in the order of the list.  A backend needs all of
   them where devices share something: the CPU backend divides the processor's cores among its
   devices. */
typedef struct dpt_open_args {
    const dpt_device_request *requests;
    size_t n_requests;
    size_t self; /* the entry that this call opens */
    /* How many threads of this process the system runs at once without making them wait, in the
       mean over time: the processors that it may use, and the quota of its control group.  At least
       1.  A device that is the cores of this machine takes no more threads by default. */
    size_t n_processors;
} dpt_open_args;

/* A parameter that the backend knows.  Messages and `dptrain devices --help` show it. */
typedef struct dpt_param_spec {
    const char *key;
    const char *help; /* one line, with the range of values */
    dpt_param_type type;
    size_t min, max;            /* DPT_PARAM_NUMBER: the bounds, which are included */
    const char *const *choices; /* DPT_PARAM_CHOICE: the possible values, ended by NULL */
    /* DPT_PARAM_PRECISION: the possible values, 1u << DPT_PRECISION_ values.  A precision can also
       be given for a whole list of devices. */
    uint32_t precisions;
} dpt_param_spec;

enum { DPT_NAME_BYTES = 96, DPT_DETAIL_BYTES = 256, DPT_DOMAIN_BYTES = 40, DPT_GROUP_BYTES = 16 };

typedef enum dpt_device_flags {
    /* The device is the cores of this machine, whatever API drives them. */
    DPT_DEVICE_IS_HOST_CPU = 1u << 0,
    /* An operator must have run once with as many samples before it is recorded.  Some libraries
       load code at the first use. */
    DPT_DEVICE_RECORDS_LATE = 1u << 1,
    /* The driver thread computes, on a core that no other device of this process computes on.  A
       busy wait in the driver thread then takes no time from other devices. */
    DPT_DEVICE_DRIVER_COMPUTES = 1u << 2,
    /* The derivative of a ReLU behind a batch-norm is faster in the backward operators of that
       batch-norm (output_activation) than as a mask in the operators that read the batch-norm's
       output.  This is so where the convolutions of a library apply no mask. */
    DPT_DEVICE_NORMS_MASK = 1u << 3,
    /* `prepare` honours dpt_op_request.deterministic, or says why it cannot. */
    DPT_DEVICE_DETERMINISTIC = 1u << 4,
} dpt_device_flags;

typedef struct dpt_device_properties {
    char name[DPT_NAME_BYTES];     /* "AMD EPYC 9454" */
    char detail[DPT_DETAIL_BYTES]; /* free text: "OpenBLAS 0.3.21 serial, SkylakeX kernels" */
    size_t memory_bytes;           /* all of the device's memory */
    size_t alignment_bytes; /* what operators need for offsets: a power of two, at most 256 */
    unsigned n_threads;     /* threads or compute units; 0: unknown */
    /* The bytes that the caches of the device hold for it, all threads together.  Work on more
       bytes is slower.  0: no limit is known. */
    size_t cache_bytes;
    uint32_t flags; /* dpt_device_flags */
    /* The type in which the device stores activations and their gradients: DPT_F32 or DPT_BF16.
       Core prepares operators with this type as dpt_op_desc.type. */
    dpt_dtype activations;
    unsigned char uuid[16]; /* all zero: none */
    char pci_id[16];        /* "0000:3b:00.0"; empty: none */
    /* A group of this backend's devices that a list can name, as in NAME:GROUP:1.  The name matches
       [a-z][a-z0-9]* and is not "all".  Empty: no group.  Devices of a group are numbered in the
       order of their indices. */
    char group[DPT_GROUP_BYTES];
    /* Two devices with equal strings are in the same domain. */
    char memory_domain[DPT_DOMAIN_BYTES];  /* devices that see one memory share one copy of data */
    char compute_domain[DPT_DOMAIN_BYTES]; /* devices that compete for the same cores */
    char fault_domain[DPT_DOMAIN_BYTES];   /* devices that fail together */
} dpt_device_properties;

typedef struct dpt_device_ops {
    /* Required.  Counts the devices.  DPT_E_ABSENT with the reason in *error if the driver or the
       hardware is missing.  Core does not treat that as a failure. */
    dpt_status (*probe)(size_t *n_devices, dpt_error *error);
    /* Required.  Describes device `index` without opening it. */
    dpt_status (*describe)(size_t index, dpt_device_properties *info, dpt_error *error);
    /* Required.  Opens a device.  DPT_E_INVALID for a DPT_PARAM_TEXT that has no meaning here, with
       what is possible in the record.  Core calls `close` after a failure. */
    dpt_status (*open)(dpt_device *device, const dpt_open_args *args);
    /* Required.  Accepts a device whose `open` failed half-way.  Core has released everything that
       was created on the device, unless the device was lost. */
    void (*close)(dpt_device *device);
    /* Required.  Describes an open device: as `describe`, with the effect of its parameters. */
    dpt_status (*info)(dpt_device *device, dpt_device_properties *info);
} dpt_device_ops;

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Device memory.  The backend defines the struct. */
typedef struct dpt_buffer dpt_buffer;

/* A place in device memory.  It is no pointer, because OpenCL has no pointers into buffers. */
typedef struct dpt_location {
    dpt_buffer *buffer;
    size_t offset_bytes;
} dpt_location;

typedef struct dpt_stream
    dpt_stream;                     /* an in-order queue of work; the backend defines the struct */
typedef struct dpt_event dpt_event; /* a point in a stream; the backend defines the struct */

typedef struct dpt_memory_ops {
    /* Required.  Allocates n_bytes > 0, aligned to 256 bytes, with undefined contents.
       DPT_E_NO_MEMORY says how much was asked for and how much is free. */
    dpt_status (*alloc)(dpt_device *device, size_t n_bytes, dpt_buffer **out);
    /* Required.  Accepts NULL.  All work that uses the buffer has finished. */
    void (*free)(dpt_device *device, dpt_buffer *buffer);
    /* Optional.  Makes a buffer of host memory, without a copy, for data that a device reads.  The
       caller keeps the memory valid until `free`, and unchanged while work that reads it runs. */
    dpt_status (*wrap_host)(dpt_device *device, const void *host, size_t n_bytes, dpt_buffer **out);
    /* Optional.  Returns the address of a buffer that lies in host memory.  Such memory is
       coherent: after `sync`, any thread can read what a stream wrote. */
    void *(*host_pointer)(dpt_device *device, dpt_buffer *buffer);
    /* Defaulted (aligned_alloc and free).  Host memory that uploads and downloads use at full
     * speed. */
    dpt_status (*host_alloc)(dpt_device *device, size_t n_bytes, void **out);
    void (*host_free)(dpt_device *device, void *host);
    /* Required.  Enqueue a copy of n_bytes.  The caller keeps host memory valid until the stream
       has passed this point, and for an upload also unchanged.  Source and destination do not
       overlap. */
    dpt_status (*upload)(dpt_stream *stream, dpt_location to, const void *host, size_t n_bytes);
    dpt_status (*download)(dpt_stream *stream, void *host, dpt_location from, size_t n_bytes);
    dpt_status (*copy)(dpt_stream *stream, dpt_location to, dpt_location from, size_t n_bytes);
    /* Required.  Enqueues a fill of n_bytes, a multiple of 4, with a repeated 32-bit pattern. */
    dpt_status (*fill)(dpt_stream *stream, dpt_location to, uint32_t pattern, size_t n_bytes);
} dpt_memory_ops;

/* ---- Streams and events ---------------------------------------------------------------------- */

typedef struct dpt_stream_ops {
    /* Required. */
    dpt_status (*create)(dpt_device *device, dpt_stream **out);
    void (*destroy)(dpt_stream *stream); /* accepts NULL */
    /* Required.  Waits until everything that was enqueued has finished.  Reports deferred failures.
     */
    dpt_status (*sync)(dpt_stream *stream);
    /* Required.  Events measure the device's own time. */
    dpt_status (*event_create)(dpt_device *device, dpt_event **out);
    void (*event_destroy)(dpt_event *event); /* accepts NULL */
    dpt_status (*event_record)(dpt_event *event, dpt_stream *stream);
    /* Required.  What is enqueued on `stream` from now on waits for `event`.  The event belongs to
       a device of the same backend and has been recorded. */
    dpt_status (*event_wait)(dpt_stream *stream, dpt_event *event);
    /* Required.  *done says whether the work before the recorded event has finished. */
    dpt_status (*event_query)(dpt_event *event, bool *done);
    /* Required.  Waits until the work before the recorded event has finished, and for no later
       work. Reports deferred failures. */
    dpt_status (*event_sync)(dpt_event *event);
    /* Required.  Seconds of device time between two events that have passed. */
    dpt_status (*event_elapsed)(dpt_event *start, dpt_event *end, double *seconds);
} dpt_stream_ops;

/* ---- Capture (optional table) ---------------------------------------------------------------- */

/* A recorded sequence of runs, copies and fills.  Locations and numbers of samples are fixed. */
typedef struct dpt_recording dpt_recording;

typedef struct dpt_capture_ops {
    /* Required.  From `begin` to `end`, runs, copies and fills on this stream are recorded and not
       executed.  Core makes no other call on the stream.  DPT_E_UNSUPPORTED: this device does not
       record. */
    dpt_status (*begin)(dpt_stream *stream);
    /* Required.  Ends the recording, also after a run that failed.  On failure nothing is recorded
       and *out is not written.  DPT_E_UNSUPPORTED if something that ran cannot be recorded,
       whatever its run returned.  Core then runs the work directly every time. */
    dpt_status (*end)(dpt_stream *stream, dpt_recording **out);
    /* Required.  Enqueues the recorded work once more. */
    dpt_status (*replay)(dpt_stream *stream, dpt_recording *recording);
    void (*release)(dpt_device *device, dpt_recording *recording); /* required; accepts NULL */
} dpt_capture_ops;

/* ---- Collectives (optional table) ------------------------------------------------------------ */

typedef struct dpt_communicator dpt_communicator; /* the backend defines the struct */

/* The bytes by which the ranks of a new communicator find each other.  One process makes the
   invitation and sends it to the other processes. */
typedef struct dpt_invitation {
    uint8_t bytes[128];
} dpt_invitation;

/* Devices of one backend and one process.  They are the ranks first_rank, first_rank + 1, ... of
   the n_ranks of a communicator. */
typedef struct dpt_group {
    dpt_device *const *devices;
    size_t n_devices, first_rank, n_ranks;
    dpt_invitation invitation;
    double timeout_seconds; /* how long to wait for the other ranks */
} dpt_group;

/* A failure is left in the error record of the device that the call is for.  Failures of `check`,
   `invite` and `create` are left in the record of the first device.  Core tries a new communicator
   with sums whose results it knows before it uses the communicator. */
typedef struct dpt_collective_ops {
    /* Required.  Says whether these devices can be ranks of one communicator, as far as this
       process can tell.  `invitation` and `timeout_seconds` are not read.  The call makes nothing
       and waits for no other rank: where there are several processes, all of them ask before one
       invites. DPT_E_UNSUPPORTED with a reason: there are no collectives here, or not for these
       devices, or not over processes (n_ranks > n_devices). */
    dpt_status (*check)(const dpt_group *group);
    /* Required.  Called in one process, for all processes. */
    dpt_status (*invite)(dpt_device *device, dpt_invitation *out);
    /* Required.  Called once in each process, by the driver thread of its first device, while the
       driver threads of its other devices make no calls.  All ranks call it, and it returns when
       all ranks have called it.  DPT_E_UNSUPPORTED if these devices cannot be in one communicator
       after all.  DPT_E_DEVICE if some ranks do not come. */
    dpt_status (*create)(const dpt_group *group, dpt_communicator **out);
    /* Required.  Accepts NULL.  Either no work is under way and a member's driver thread calls, or
       the communicator has been aborted, no member is in a call, and any thread calls.  Streams
       that the communicator was used on may exist afterwards.  Other processes destroy theirs too;
       the call waits for them for a few seconds at most. */
    void (*destroy)(dpt_communicator *communicator);
    /* Required.  Enqueue the part of devices[i].  The driver thread of that device calls.  `count`
       is in float32 elements.  The stream waits for the other ranks; the calls do not, except
       perhaps the first call of its kind.  All ranks make the same calls in the same order.
       all_reduce sums in place: every rank gets the same bits, and the same inputs at the same
       ranks give the same bits each time.  Elements outside `count` are neither read nor written.
     */
    dpt_status (*all_reduce)(dpt_communicator *communicator, size_t i, dpt_stream *stream,
                             dpt_location data, size_t count);
    dpt_status (*broadcast)(dpt_communicator *communicator, size_t i, size_t root_rank,
                            dpt_stream *stream, dpt_location data, size_t count);
    /* Required.  Any thread may call it, several times, also while a member is in a call that never
       returns.  Every waiting and later call of this process returns DPT_E_CANCELLED.  The work
       that was enqueued here ends, with any contents.  Other processes need not learn of the abort.
     */
    void (*abort)(dpt_communicator *communicator);
    /* Optional.  Says whether the work that was enqueued for devices[i] may still finish.  The
       driver thread of that device calls from time to time while it waits for the work.  The call
       returns at once.  DPT_E_DEVICE or DPT_E_DEVICE_LOST: the work has failed, here or at another
       rank.  NULL means that failures are returned by calls alone, and that enqueued work ends
       unless a rank does not come to it. */
    dpt_status (*query)(dpt_communicator *communicator, size_t i);
} dpt_collective_ops;

/* ---- The descriptor -------------------------------------------------------------------------- */

typedef struct dpt_operator_ops dpt_operator_ops; /* operators.h */

struct dpt_backend {
    uint32_t abi;                 /* DPT_BACKEND_ABI */
    const char *name;             /* the NAME of NAME:0, lower case */
    const char *description;      /* one line */
    const dpt_param_spec *params; /* ends with a NULL key; NULL: no parameters */
    const dpt_device_ops *device;
    const dpt_memory_ops *memory;
    const dpt_stream_ops *stream;
    const dpt_operator_ops *operators;
    const dpt_capture_ops *capture;       /* optional */
    const dpt_collective_ops *collective; /* optional */
};

/* The one exported symbol of a plug-in.  `abi` is the version that core was built with.  The
   function returns NULL if the plug-in cannot serve that version.  Core checks the descriptor's own
   number before it reads any other member. */
typedef const dpt_backend *(*dpt_backend_entry_fn)(uint32_t abi);
#define DPT_BACKEND_ENTRY_NAME "dpt_backend_entry"

#endif
