/* dptrain trains neural networks with synchronous data parallelism on any mix of devices, in one
   process or in several.  This header is the public API of libdptrain.  Networks by name are
   declared in dptrain_models.h.

       dpt_context_create(&context);
       dpt_devices_open(context, "cpu,cpu", &devices);
       dpt_dataset_open(context, "fashion-mnist", NULL, DPT_TRAIN, &data);

       dpt_model_create(context, "mine", &model);
       dpt_value x = dpt_flatten(model, dpt_input(model, 28, 28, 1));
       dpt_model_finish(model, dpt_linear(model, x, "fc", &(dpt_linear_options){.out = 10}));

       dpt_trainer_create(devices, model, data, &options, &trainer);
       dpt_trainer_step(trainer, &metrics);

   Errors.  A function that can fail returns DPT_OK or a negative status.  After a failure
   dpt_error_message(context) says in one line what failed and what to do.

   Arguments.  Outputs come last and are written only on success.  Destroy functions accept NULL.
   Any other pointer may be NULL only where the function's comment says so.  Options structs are
   filled with designated initialisers.  A zero field takes the default that the field's comment
   names.

   Lifetime.  Every object belongs to one context and must be destroyed before the context.  A
   device set must outlive the arrays and trainers that use the set.  A dataset and a model must
   outlive the trainers that use them.

   Threads.  Only one thread at a time may use a context and the objects of the context.  Different
   contexts are independent.  A child that is forked while a context exists has none of the
   context's threads.  Such a child may only call exec or _exit and must destroy nothing.

   Text.  Numbers in strings and files use a decimal point, whatever the program's locale is.
 */
#ifndef DPTRAIN_H
#define DPTRAIN_H

#include "dpt_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DPT_VERSION "0.1.0"
/* Returns the version of the library that the program runs with.  That version may differ from
   DPT_VERSION, which is the version of this header.  Never NULL; the string is static.
   Cannot fail. */
DPT_API const char *dpt_version(void);

/* ---- Status and context ---------------------------------------------------------------------- */

typedef struct dpt_context dpt_context;

/* Return the name of a status ("DPT_E_FORMAT") and a short description of a status ("malformed
   data").  An unknown status gives "DPT_E_?" and "unknown status".  Never NULL; the strings are
   static. */
DPT_API const char *dpt_status_name(dpt_status status);
DPT_API const char *dpt_status_words(dpt_status status);

/* Creates a context, loads the backend plug-ins and asks each backend for its devices.  An absent
   or broken backend is not a failure; dpt_backend_reason gives the reason.  The caller owns *out
   and destroys it with dpt_context_destroy.  Errors: DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_context_create(dpt_context **out);
typedef struct dpt_context_options {
    /* The longest time in seconds that one call into a backend may take when no trainer sets a
       limit.  The limit is this value for closing a device and for work on arrays.  The limit is
       ten times this value for finding, opening and measuring devices, because these calls may
       compile kernels.  0 means ten minutes, and no limit for arrays.  At most 1e9.
       If a device does not answer in a collective, the arrays of that collective are never
       released and their devices are never closed, because the hung call may still read them. */
    double device_timeout;
    /* A device list.  Only the backends that this list names for this process are loaded, so that
       the program does not wait for other drivers; every other backend counts as absent.  NULL, or
       text that is not a device list, means all backends. */
    const char *devices;
} dpt_context_options;
/* Creates a context as dpt_context_create does, with options.  Errors: DPT_E_INVALID if
   device_timeout is negative, above 1e9 or not a number; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_context_create_with(const dpt_context_options *options,
                                                            dpt_context **out);
/* Destroys a context.  Accepts NULL.  Cannot fail. */
DPT_API void dpt_context_destroy(dpt_context *context);

/* Returns the message of the last failed call on this context, or "no error".  Never NULL.  The
   string is valid until the next failure.  The message is always one line, even if a name or a path
   in the message contains control characters. */
DPT_API const char *dpt_error_message(const dpt_context *context);

/* For code built on this library (models/, cli/).  Records a failure with a printf-style message in
   the context and returns `status` unchanged. */
DPT_API DPT_PRINTF(3, 4) dpt_status
    dpt_fail(dpt_context *context, dpt_status status, const char *format, ...);
/* Returns the entry of the NULL-terminated list `known` that is nearest to the misspelt `word`, or
   NULL if no entry is near.  Cannot fail. */
DPT_API const char *dpt_nearest(const char *word, const char *const *known);

/* ---- Backends and devices -------------------------------------------------------------------- */

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

typedef struct dpt_device_description {
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
} dpt_device_description;

/* Describes a device without opening the device.  The strings in *out stay valid as long as the
   context.  Errors: the backend's own failure for this device; DPT_E_DEVICE_LOST if the device did
   not answer this call or an earlier attempt to open the device. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_backend_describe(dpt_context *context, size_t backend,
                                                         size_t index, dpt_device_description *out);

/* Opens the devices of a list such as "cpu", "cpu:threads=2,cuda:0:memory=2G" or "all".
   docs/devices.md has the grammar.  NULL means "all".  A list may name the same device twice. "all"
   leaves out a device that does not answer, unless no other device exists; dpt_backend_status and
   dpt_backend_describe tell which one.  The caller closes `out` with dpt_devices_close.

   Several processes may pass one text that has a list for each process, such as
   "@0=cuda:0;@1=cpu"; docs/processes.md has the grammar.  A process opens the list of its rank,
   else the list of its host, else the list of "@*".  Before dpt_processes_join, the rank is the one
   in the launcher's environment variable.

   Errors: DPT_E_INVALID if the list does not follow the grammar, names an unknown backend or
   parameter, has an index or a value out of range, or has two lists or no list for this process.
   DPT_E_ABSENT if a named backend has no driver or no device.  DPT_E_DEVICE_LOST if a named device,
   or the device's backend, did not answer; this context does not ask that device again.
   DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_devices_open(dpt_context *context, const char *list,
                                                     dpt_device_set **out);
/* Sets the precision of the devices that are opened after this call.  The precision= parameter of a
   device in the list takes priority.  A device that does not know the precision computes in
   float32, which is not less exact.  NULL or "fp32": all devices compute in true float32.  Errors:
   DPT_E_NO_MEMORY.  A later dpt_devices_open gives DPT_E_INVALID if no device of the list belongs
   to a backend that knows the precision, and DPT_E_UNSUPPORTED if a device cannot compute in it. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_context_set_precision(dpt_context *context,
                                                              const char *name);
/* Makes a subset of an open device set.  The subset holds the devices at `indices` (n entries), in
   that order.  A device keeps the cores and the memory that the device has in the whole set, so
   that speeds in the subset and in the set are comparable.  The caller closes the subset before the
   set.  Closing the subset closes no device.  Trainers on different subsets may exist at the same
   time; a device works for one trainer at a time.
   Errors: DPT_E_INVALID if n is 0, an index is out of range or an index is repeated;
   DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_devices_subset(dpt_device_set *devices,
                                                       const size_t *indices, size_t n,
                                                       dpt_device_set **out);
/* Closes a device set.  Accepts NULL.  A device that does not answer stays open and a thread stays
   with the hung call (dpt_context_abandoned).  Cannot fail. */
DPT_API void dpt_devices_close(dpt_device_set *devices);
/* Returns the number of devices in a set.  Cannot fail. */
DPT_API size_t dpt_devices_count(const dpt_device_set *devices);
/* Returns device i of a set, or NULL if i is not below the count.  The set owns the device.
   Cannot fail. */
DPT_API dpt_device *dpt_devices_get(const dpt_device_set *devices, size_t i);
/* Describes an open device.  Cannot fail. */
DPT_API void dpt_device_describe(const dpt_device *device, dpt_device_description *out);

/* The measured rates of a device, by the host's clock and with waiting times included.  Each rate
   is the median of several measurements. */
typedef struct dpt_device_rates {
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

/* ---- Several processes ----------------------------------------------------------------------- */

/* Joins the processes that a launcher of MPI (mpirun) has started together with this one.  After
   the call trainers of this context train on the devices of all processes (docs/processes.md).  All
   processes must then make the same calls on trainers, in the same order.  Without a launcher, or
   with DPTRAIN_TRANSPORT=none in the environment, the call does nothing.  Call it once, before the
   first trainer is created.

   Errors: DPT_E_ABSENT if a launcher exists, but the MPI plug-in or the MPI library is missing.
   DPT_E_INVALID if the processes have different versions of dptrain or are different programs, the
   launcher's variable is not a number, or DPTRAIN_TRANSPORT_DELAY is not a time. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_processes_join(dpt_context *context);
/* Joins as dpt_processes_join does, for a program that has several commands.  `purpose` names this
   command in a few words.  Errors: as dpt_processes_join; DPT_E_INVALID also if another process has
   another purpose, which the message names. dpt_processes_join has the purpose "". */
DPT_API DPT_CHECK_RESULT dpt_status dpt_processes_join_for(dpt_context *context,
                                                           const char *purpose);
/* Returns how many processes would join according to the launcher's environment variables.  Returns
   1 if this process is alone or the variables cannot be read.  Cannot fail. */
DPT_API size_t dpt_processes_launched(void);
/* Returns the number of joined processes; 1 if this process is alone.  Cannot fail. */
DPT_API size_t dpt_process_count(const dpt_context *context);
/* Returns the rank of this process, from 0.  Cannot fail. */
DPT_API size_t dpt_process_rank(const dpt_context *context);
/* Writes the name of the transport between processes as text for a person: "mpi", or "mpi, delayed
   by 5 ms" if some messages are delayed.  Writes "" if this process has joined no others.  `out`
   has n_bytes bytes.  Cannot fail. */
DPT_API void dpt_process_transport(const dpt_context *context, char *out, size_t n_bytes);
/* The measured cost of a sum over processes, and the route that collectives take because of that
   cost. */
typedef struct dpt_link {
    double alpha, beta; /* seconds, and seconds per byte: a sum of n bytes takes alpha + beta n
                           seconds; both are 0 if there is one process */
    const char *route;  /* "direct": each process sends to all others; "ring": each process sends to
                           its neighbour */
    size_t window;      /* largest number of chunks of 256 KiB that are in flight */
} dpt_link;
/* Measures some sums between the processes and chooses the route and the window from the measured
   times.  All processes make the call and choose the same.  The choice changes no bit of any
   result.  Creating a trainer includes this measurement.  Without a measurement collectives use the
   direct route and three chunks at a time.  `out` may be NULL.  Errors: DPT_E_NO_MEMORY; the
   failure of the transport. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_processes_measure(dpt_context *context, dpt_link *out);
/* Returns the time in seconds by which process `rank` delays the messages that the process
   receives.  The process sets that time with DPTRAIN_TRANSPORT_DELAY.  `rank` must be below
   dpt_process_count.  Cannot fail. */
DPT_API double dpt_process_delay(const dpt_context *context, size_t rank);
/* Returns whether this process should report the last failure to the user.  True for rank 0, and
   for a process whose failure the other processes do not know.  Cannot fail. */
DPT_API bool dpt_process_speaks(const dpt_context *context);
/* Returns whether all processes know of the last failure.  True if there is only one process.
   Cannot fail. */
DPT_API bool dpt_process_agreed(const dpt_context *context);
/* Declares that this process has failed and will exit with a nonzero status.  The launcher then
   ends the other processes.  After the call the context does not wait for the other processes.  The
   call does nothing if all processes know of the failure already.  Cannot fail. */
DPT_API void dpt_process_give_up(dpt_context *context);

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* A float32 array on one device.  An operation on arrays is enqueued on the device and returns at
   once.  The device executes operations in the order of the calls.  A failure of an enqueued
   operation makes the result array invalid; dpt_array_wait and dpt_array_get of that array return
   the failure.  A successful dpt_array_set makes the array valid again. */
typedef struct dpt_array dpt_array;

/* Creates an array of zeros and waits for the allocation.  `rank` is 1 to 4; every extent in
   `shape` is at least 1.  The caller owns *out and destroys it with dpt_array_destroy.  Errors:
   DPT_E_INVALID if the rank is out of range, an extent is 0 or the size overflows; DPT_E_NO_MEMORY;
   the device's own failures. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_array_create(dpt_device *device, const size_t *shape,
                                                     size_t rank, dpt_array **out);
/* Waits for the work that uses the array, then destroys the array.  Accepts NULL.  A failure of
   that work is reported by dpt_devices_wait.  Cannot fail. */
DPT_API void dpt_array_destroy(dpt_array *array);
/* Return the rank, the shape (rank extents, owned by the array), the number of elements and the
   device of an array.  Cannot fail. */
DPT_API size_t dpt_array_rank(const dpt_array *array);
DPT_API const size_t *dpt_array_shape(const dpt_array *array);
DPT_API size_t dpt_array_size(const dpt_array *array);
DPT_API dpt_device *dpt_array_device(const dpt_array *array);

/* Copies dpt_array_size elements from `host` before the call returns, and enqueues the upload.
   Errors: DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_array_set(dpt_array *array, const float *host);
/* Waits for the array and copies dpt_array_size elements to `host`.  Errors: the failure that made
   the array invalid; the device's own failures; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_array_get(dpt_array *array, float *host);

/* Enqueue c = a * b, c = a + b and c = alpha * a + beta, element by element.  Errors: DPT_E_INVALID
   if the arrays differ in size or are on different devices; DPT_E_NO_MEMORY.  If an input array is
   invalid, c becomes invalid with the same failure. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_array_multiply(dpt_array *a, dpt_array *b, dpt_array *c);
DPT_API DPT_CHECK_RESULT dpt_status dpt_array_add(dpt_array *a, dpt_array *b, dpt_array *c);
DPT_API DPT_CHECK_RESULT dpt_status dpt_array_affine(dpt_array *a, float alpha, float beta,
                                                     dpt_array *c);

/* Waits until all work that was enqueued for this array is done.  Errors: the failure that made the
   array invalid; the device's own failures.
   DPT_E_DEVICE_LOST if the device does not answer in time. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_array_wait(dpt_array *array);
/* Waits until every queue of every device of the set is empty.  Errors: the first failing device's
   failure; DPT_E_DEVICE_LOST if a device does not answer in time; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_devices_wait(dpt_device_set *devices);

/* Returns the number of threads that still wait for a device which does not answer.  Such a thread
   may wait in a step, in a release of memory or in the closing of a device.  Destroying a trainer
   or an array, and closing devices, wait for one call at most dpt_trainer_options.device_timeout
   (ten minutes if there was no trainer).  After that time the memory that was to be released stays
   with the thread.  The library never frees memory that a hung device may still access; for
   example, destroying a data set that such a device reads in place frees nothing.  A process with
   an abandoned thread must end with _exit, because exit handlers of vendor libraries may not
   return. Cannot fail. */
DPT_API size_t dpt_context_abandoned(const dpt_context *context);

/* Divides n_rows rows among n_devices devices and writes n_devices counts to `rows`.  "equal" gives
   chunks of ceil(n_rows / n_devices) rows; the last devices may get no rows.  "A:B:C" divides the
   rows in these proportions, rounded so that the counts add up to n_rows.  NULL means "equal".
   Errors: DPT_E_INVALID for any other `split`, such as a trainer's "measured", or if n_devices is
   out of range. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_split_rows(dpt_context *context, const char *split,
                                                   size_t n_rows, size_t n_devices, size_t *rows);

/* Scatters a row-major (n_rows, n_columns) matrix over the devices of a set.  Device i gets the
   next rows[i] rows.  out[i] becomes an array of shape (rows[i], n_columns), or NULL if rows[i] is
   0.  The caller owns the arrays.  Errors: DPT_E_INVALID if the entries of `rows` do not add up to
   n_rows, n_columns is 0 or the sizes overflow; DPT_E_NO_MEMORY; the devices' own failures. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_scatter(dpt_device_set *devices, const float *host,
                                                size_t n_rows, size_t n_columns, const size_t *rows,
                                                dpt_array **out);

/* Collectives.  Each array is on a device of its own.  With several processes the list of arrays
   continues in rank order: first the arrays of process 0, then those of process 1, and so on. Every
   process has at least one array, and all processes make the same call.  A call waits until the
   collective is done.  An array that a collective writes and does not read becomes valid, as after
   dpt_array_set.  After a failure the content of an array that the collective writes is undefined.
   The program may set such an array and make the call again.

   Errors of all collectives.  A call fails in all processes or in none.  The status is that of the
   first failure in rank order, and the message names the process.  DPT_E_INVALID: sizes do not fit
   or the list is not allowed.  DPT_E_NO_MEMORY.  Devices' own failures.  After such a failure all
   processes may continue.  A call without any array gives DPT_E_INVALID in the calling process;
   that process cannot tell the others, and the others wait for that process. If processes can no
   longer reach each other, or a process has no memory to tell the others, the call fails and every
   later call that the processes make together fails too.  The process must exit, which ends the
   other processes (see dpt_process_give_up). */

/* All-reduce: replaces every array by the sum of all arrays.  All arrays have the same size.  The
   sum is taken in the order of the list, so that every device gets the same bits.  Errors: as for
   all collectives above.  DPT_E_INVALID if the sizes do not fit. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_all_reduce(dpt_array *const *arrays, size_t n_arrays);

/* Broadcast: replaces every array by the array with the index `root`.  All arrays have the same
   size. `root` counts over the arrays of all processes.  Errors: as for all collectives above.
   DPT_E_INVALID if the sizes do not fit or there is no such root. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_broadcast(dpt_array *const *arrays, size_t n_arrays,
                                                  size_t root);

/* Reduce-scatter: sums the arrays as dpt_all_reduce does and gives every device one part of the
   sum. All arrays have the same size.  parts[i] is on the device of arrays[i].  parts[i] gets the
   elements that follow those of parts[i - 1]; the number of elements is the size of parts[i].  The
   sizes of the parts may differ.  The parts of all processes together have the size of one array.
   A NULL part has no elements.  The arrays are not changed.  A part must not be one of the arrays.
   Errors: as for all collectives above.  DPT_E_INVALID if the sizes do not fit. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_reduce_scatter(dpt_array *const *arrays,
                                                       dpt_array *const *parts, size_t n_arrays);

/* All-gather: writes all parts, one after the other, to every array.  Every array is as large as
   all parts together.  Errors: as for all collectives above.  DPT_E_INVALID if the sizes do not
   fit. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_all_gather(dpt_array *const *parts,
                                                   dpt_array *const *arrays, size_t n_arrays);

/* ---- Models ---------------------------------------------------------------------------------- */

/* A network: a graph of layers.  A model is built once and belongs to no device.  Sizes are per
   sample; a model has no batch dimension.  A building function returns a value that later building
   functions take as input.  After the first failure of a building function all later building
   functions do nothing and return the value 0.  dpt_model_finish then reports the first failure and
   names the layer. */
typedef struct dpt_model dpt_model;

typedef struct dpt_value {
    uint32_t id; /* 0: none */
} dpt_value;

typedef struct dpt_conv2d_options {
    size_t out_channels;
    size_t kernel[2];   /* height, width */
    size_t stride[2];   /* default 1 */
    size_t padding[2];  /* default 0 */
    size_t dilation[2]; /* default 1 */
    size_t groups;      /* default 1 */
    bool no_bias;
    dpt_activation activation;
} dpt_conv2d_options;

typedef struct dpt_pool2d_options {
    dpt_pool_kind kind;
    size_t kernel[2];
    size_t stride[2]; /* default: the kernel */
    size_t padding[2];
} dpt_pool2d_options;

typedef struct dpt_linear_options {
    size_t out;
    bool no_bias;
    dpt_activation activation;
} dpt_linear_options;

typedef struct dpt_embedding_options {
    size_t rows;  /* of the table: ids are from 0 to rows - 1 */
    size_t width; /* elements of a row */
} dpt_embedding_options;

typedef struct dpt_norm_options {
    float epsilon;  /* default 1e-5 */
    float momentum; /* of batch-norm's running statistics; default 0.1, as in PyTorch */
    dpt_activation activation;
} dpt_norm_options;

/* Creates an empty model.  The name of the model and the names of the layers appear in checkpoints
   and in messages.  Names are UTF-8 without control characters.  A layer's name has 1 to 120 bytes.
   A layer's name must not begin with "optimizer.velocity.", "optimizer.squares." or "owed.",
   because the names of a checkpoint's other tensors begin with these words.  The caller owns *out.
   Errors: DPT_E_INVALID if `name` is NULL, empty or not allowed; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_model_create(dpt_context *context, const char *name,
                                                     dpt_model **out);
/* Makes a finished model of an ONNX file, which begins with the weights of the file.  The name of
   the model is `path`.  docs/onnx.md lists what is taken.  Images of a data set must have the shape
   of the file's input: (height, width, channels) for an input of (N, channels, height, width), (1,
   1, n) for (N, n), (a, b, 1) for (N, a, b).  The caller owns *out.  Errors: DPT_E_INVALID if an
   argument is NULL; DPT_E_NOT_FOUND, DPT_E_IO; DPT_E_FORMAT for a damaged file; DPT_E_UNSUPPORTED
   for a network that cannot be trained, whose message names the node and its operator;
   DPT_E_NO_MEMORY.
 */
DPT_API DPT_CHECK_RESULT dpt_status dpt_model_from_onnx(dpt_context *context, const char *path,
                                                        dpt_model **out);
/* Destroys a model.  Accepts NULL.  Cannot fail. */
DPT_API void dpt_model_destroy(dpt_model *model);

/* Adds the input of the network: images of height, width, channels.  A model has one input.  A
   failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_input(dpt_model *model, size_t height, size_t width, size_t channels);
/* Ids are below this number. */
enum { DPT_MAX_VOCABULARY = 1 << 24 };
/* Adds the input of a network that reads ids, such as those of the tokens of a text, instead of
   dpt_input: `count` integers a sample.  The data set must have dtype DPT_I32, height 1, width 1
   and `count` channels, and a vocabulary that is not larger than the smallest table of an
   embedding. dpt_embedding and dpt_elementwise take the ids; no other layer does.  A failure sticks
   to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_input_ids(dpt_model *model, size_t count);
/* Add layers.  `name` is the prefix of the layer's parameters in a checkpoint: "conv1" gives
   conv1.weight and conv1.bias.  No two layers of a model may have the same name.  dpt_model_finish
   reports the failures of these functions.  A failure sticks to the model (DPT_E_INVALID,
   DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_conv2d(dpt_model *model, dpt_value x, const char *name,
                             const dpt_conv2d_options *options);
/* A failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_linear(dpt_model *model, dpt_value x, const char *name,
                             const dpt_linear_options *options);
/* Adds batch normalisation (Ioffe and Szegedy 2015).  The layer normalises each channel over the
   batch and the image, and each element of a flat value over the batch.  The parameters are
   NAME.weight and NAME.bias.  The running statistics are NAME.running_mean and NAME.running_var;
   evaluation normalises by the running statistics.  `options` may be NULL: all defaults.  A failure
   sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_batch_norm(dpt_model *model, dpt_value x, const char *name,
                                 const dpt_norm_options *options);
/* Adds layer normalisation (Ba, Kiros, Hinton 2016).  The layer normalises the channels of each
   pixel, or a flat value as a whole.  `options` may be NULL: all defaults.  A failure sticks to the
   model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_layer_norm(dpt_model *model, dpt_value x, const char *name,
                                 const dpt_norm_options *options);
/* Adds an embedding: each id becomes a row of the parameter NAME.weight (rows, width).  `ids` is
   the value of dpt_input_ids.  The output is an image of height 1 whose pixels are the rows, in the
   order of the ids: a convolution with a kernel of 1x1 is a linear layer for each of them.  With
   the init "default" the table begins with normal numbers of deviation 1, as in PyTorch.  A failure
   sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_embedding(dpt_model *model, dpt_value ids, const char *name,
                                const dpt_embedding_options *options);
/* Adds max or average pooling.  A failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or
   DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_pool2d(dpt_model *model, dpt_value x, const dpt_pool2d_options *options);
/* Adds a layer that takes the mean of each channel over the image.  The output is (1, 1, c).  A
   failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_global_average_pool(dpt_model *model, dpt_value x);
/* Adds dropout (Srivastava et al. 2014).  In training the layer sets each element to zero with
   probability p and divides the other elements by 1 - p.  In evaluation the layer changes nothing.
   0 <= p < 1.  A failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_dropout(dpt_model *model, dpt_value x, float p);
/* Adds an activation function, applied to every element.  A failure sticks to the model
   (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_activate(dpt_model *model, dpt_value x, dpt_activation kind);
/* Adds the element-wise sum of two values of equal shape.  A failure sticks to the model
   (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_add(dpt_model *model, dpt_value a, dpt_value b);
/* Adds a layer that computes a formula for every element of one to four values.  The whole formula
   is one operation on every device, and its derivative is found from the formula:

       dpt_elementwise(model, "a * sigmoid(a)", &x, 1);                      SiLU
       dpt_elementwise(model, "a * b", (dpt_value[]){image, gate}, 2);       a gate for each channel

   formula   Numbers, the inputs a, b, c and d, the operators + - * / and parentheses, and the
             functions abs, ceil, cos, erf, exp, floor, log, round, sigmoid, sign, sin, softplus,
   sqrt and tanh of one argument; max, min and pow of two; the comparisons equal, less and
             less_equal, and and, or and not, which are 1 or 0; select(condition, x, y).  A formula,
             and its derivative, has at most 32 operations.  floor, ceil, round, sign and
   comparisons have the derivative 0.  As in PyTorch, both branches of select are computed: a branch
             whose derivative is infinite makes the derivative NaN, also where it is not selected.
   inputs    (n_inputs), all of which the formula reads.  On each axis all inputs have the same
             extent, or some have 1 and are broadcast.  A vector of c elements (a linear layer's
             output, or a flattened 1x1 image) counts as an image of 1x1 pixels with c channels.

   The output has the largest extents.  It is a vector if all inputs are vectors.  A failure sticks
   to the model: DPT_E_INVALID, with the place in the formula; DPT_E_STATE; DPT_E_NO_MEMORY. */
DPT_API dpt_value dpt_elementwise(dpt_model *model, const char *formula, const dpt_value *inputs,
                                  size_t n_inputs);
/* Adds a layer that turns (h, w, c) into one vector.  The logical order of the elements is c, h, w,
   as in PyTorch.  A failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_flatten(dpt_model *model, dpt_value x);

/* Ends the building of a model.  `logits` are the scores of the classes, or the predictions of a
   regression (see dpt_loss).  Errors: the first failure of a building function; DPT_E_STATE if the
   model is already finished; DPT_E_INVALID if `model` is NULL, `logits` is no value of the model,
   `logits` is an image, a layer does not lead to `logits`, or the model has no parameters;
   DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_model_finish(dpt_model *model, dpt_value logits);

/* Ends the building of a model that scores every pixel of an image, or every token: `logits` is an
   image, or the value of an embedding and of layers over it, whose channels are the scores of the
   classes.  Each pixel has a label; the labels of a sample are in the order of its pixels, row by
   row. Loss and accuracy are means over the labels.  Such a model is trained by
   DPT_LOSS_CROSS_ENTROPY only.  Errors: as dpt_model_finish; DPT_E_INVALID if `logits` is no image.
 */
DPT_API DPT_CHECK_RESULT dpt_status dpt_model_finish_per_pixel(dpt_model *model, dpt_value logits);

/* Returns the name of a model.  The model owns the string.  Cannot fail. */
DPT_API const char *dpt_model_name(const dpt_model *model);
/* Returns the number of scalars that are trained; 0 before dpt_model_finish.  Cannot fail. */
DPT_API size_t dpt_model_parameter_count(const dpt_model *model);
/* Returns the number of classes, which is the size of the logits of a label; 0 before
   dpt_model_finish.  Cannot fail. */
DPT_API size_t dpt_model_classes(const dpt_model *model);
/* Returns the number of labels of a sample: 1, or the number of pixels if every pixel has a label;
   0 before dpt_model_finish.  Cannot fail. */
DPT_API size_t dpt_model_labels(const dpt_model *model);

/* A tensor as a checkpoint stores it, with PyTorch's name, shape and layout.  Tensors are
   parameters, and the running statistics of batch-norm. */
typedef struct dpt_parameter_info {
    const char *name;
    size_t shape[4];
    size_t rank;
    size_t size;  /* elements */
    bool trained; /* false: a running statistic */
} dpt_parameter_info;

/* Returns the number of tensors: parameters and running statistics.  Cannot fail. */
DPT_API size_t dpt_model_tensor_count(const dpt_model *model);
/* Describes tensor i.  *out is all zero if i is not below the count.  The model owns the name.
   Cannot fail. */
DPT_API void dpt_model_tensor(const dpt_model *model, size_t i, dpt_parameter_info *out);

/* A layer.  Layers are numbered in the order of computation, the input first. */
typedef struct dpt_layer_info {
    const char *name;               /* "conv1"; layers without parameters have a generated name */
    const char *kind;               /* "conv2d" */
    size_t height, width, channels; /* of the output of one sample */
    size_t parameters;              /* scalars that are trained */
    double multiply_adds; /* per sample in the forward pass; convolutions and linear layers */
} dpt_layer_info;

/* Returns the number of layers, the input included.  Cannot fail. */
DPT_API size_t dpt_model_layer_count(const dpt_model *model);
/* Describes layer i.  *out is all zero if i is not below the count.  The model owns the name.
   Cannot fail. */
DPT_API void dpt_model_layer(const dpt_model *model, size_t i, dpt_layer_info *out);

/* ---- Data ------------------------------------------------------------------------------------ */

/* Labelled images, read-only after creation. */
typedef struct dpt_dataset dpt_dataset;

typedef enum dpt_part { DPT_TRAIN = 0, DPT_TEST = 1 } dpt_part;

/* Opens a data set by name; `part` selects the training or the test part.  Names: "fashion-mnist",
   "mnist", "cifar10"; "synthetic:HxWxC:CLASSES:COUNT"; "idx" for a pair of IDX files in `directory`
   (train-images-idx3-ubyte, t10k-..., each also with .gz); "folder:HxW" (colour) or "folder:HxWx1"
   (grey) for PNG and JPEG pictures in `directory`/train/CLASS and `directory`/test/CLASS.  Pictures
   are cut and scaled to H x W as by dpt_picture_read.  The folders in train name the classes of
   both parts.  Samples are sorted by the bytes of their file names.

   The images of "folder:HxW:stream" are read on demand (dpt_dataset_from_reader).  So are those of
   any folder whose images would take more than half of the machine's memory.

   The files are searched in `directory`, $DPTRAIN_DATA, the user's cache, and the distribution's
   package of the data, in this order.  If `directory` is given, it must hold the files.  The caller
   owns `out` and destroys it with dpt_dataset_destroy.  Errors: DPT_E_INVALID for an unknown name;
   DPT_E_NOT_FOUND (the message tells how to get the data); DPT_E_IO; DPT_E_FORMAT; DPT_E_NO_MEMORY;
   DPT_E_UNSUPPORTED if the library was built without a reader of such pictures. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_open(dpt_context *context, const char *name,
                                                     const char *directory, dpt_part part,
                                                     dpt_dataset **out);

/* Opens the images of one IDX file without labels, for dpt_trainer_predict.  The file may be
   gzipped.  `classes` is the number of classes of the data set.  Errors: DPT_E_IO; DPT_E_NOT_FOUND;
   DPT_E_FORMAT if the file is damaged or does not hold images; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_open_images(dpt_context *context, const char *path,
                                                            size_t classes, dpt_dataset **out);

/* The image that a picture is turned into. */
typedef struct dpt_picture_shape {
    size_t height, width; /* 1 to 65536 */
    size_t channels;      /* 1 or 3 */
    bool scaled; /* true: the largest centred part of this aspect ratio is scaled to this size;
                    false: the picture must have this size */
} dpt_picture_shape;

/* Reads a PNG or JPEG picture into `pixels` (height, width, channels), with values 0 to 255.  The
   content of the file, not its name, tells the format.  With one channel, colours become grey by
   their luma.  With three channels, grey becomes three equal channels.  Transparent parts become
   black. docs/data.md describes the scaling, which gives the same bytes on every machine.

   Errors: DPT_E_NOT_FOUND; DPT_E_IO; DPT_E_NO_MEMORY; DPT_E_INVALID if the shape is not allowed, or
   the picture has another size and `scaled` is false; DPT_E_FORMAT if the file is not a picture, is
   damaged, or is larger than 256 MiB or 2^28 pixels; DPT_E_UNSUPPORTED if the library was built
   without a reader of this format.  After a failure `pixels` is undefined. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_picture_read(dpt_context *context, const char *path,
                                                     const dpt_picture_shape *shape,
                                                     uint8_t *pixels);

typedef struct dpt_dataset_memory {
    size_t count, height, width, channels, classes;
    dpt_dtype dtype;    /* DPT_U8, DPT_F32, or DPT_I32 for ids */
    const void *images; /* (count, height, width, channels) */
    const void
        *labels; /* (count, labels_per_sample) of label_dtype, from 0 to classes - 1; or NULL */
    dpt_dtype label_dtype; /* DPT_I32 or DPT_U8; the value 0 means DPT_U8 */
    const float *targets;  /* (count, classes) for DPT_LOSS_SQUARED_ERROR; or NULL.  Data without
                              labels and targets can only be used by dpt_trainer_predict */
    /* The network gets (value / 255 - mean) / deviation for DPT_U8 and (value - mean) / deviation
       for DPT_F32, per channel.  A deviation of 0 means 1.  With more than 4 channels all values
       must be 0. */
    float mean[4], deviation[4];
    bool writable; /* true: dpt_dataset_write may replace samples */
    /* DPT_I32: the number of ids, from 1 to DPT_MAX_VOCABULARY; every id is from 0 to vocabulary
       - 1. Ids are not normalised, so mean and deviation must be 0.  0 for other types. */
    size_t vocabulary;
    /* The number of labels of a sample, for networks that score every pixel or token
       (dpt_model_finish_per_pixel); 0 means 1.  If there are several, a label of DPT_I32 may be
       DPT_IGNORED_LABEL: it counts neither in the loss nor in the accuracy. */
    size_t labels_per_sample;
} dpt_dataset_memory;

enum { DPT_IGNORED_LABEL = -100 };

/* Creates a data set from arrays.  The call copies images, labels and targets.  The caller owns
   `out` and destroys it with dpt_dataset_destroy.  Errors: DPT_E_INVALID if the data are not valid;
   DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_from_memory(dpt_context *context,
                                                            const dpt_dataset_memory *memory,
                                                            dpt_dataset **out);

enum { DPT_READER_WHY_BYTES = 256 };

/* A reader: functions of the program that make images on demand, for data that do not fit into
   memory. */
typedef struct dpt_dataset_reader {
    /* Makes the image of one sample (height, width, channels) for an epoch of training, counted
       from 1.  `epoch` 0 asks for the image as evaluation and prediction use it.  The function must
       give the same image whenever the same sample and epoch are asked for.  Threads of dptrain
       call the function for several samples at once, and before the steps that need them.  The
       function and `user` must live until the data set is destroyed.

       If the function does not return DPT_OK, the sample is asked for once more when a step or an
       evaluation needs it.  If the function fails again, that step or evaluation fails.  The
       function may write the reason into `why`. */
    dpt_status (*read)(void *user, size_t sample, size_t epoch, void *image,
                       char why[DPT_READER_WHY_BYTES]);
    void *user;
    size_t
        n_threads; /* threads that call `read`; 0: one per processor of the process; at most 16 */
} dpt_dataset_reader;

/* Creates a data set whose images are read on demand by the functions in `reader`. memory->images
   must be NULL.  The call copies labels and targets.  Every step sends its samples to the devices
   (dpt_device_plan.streamed), while the images of the next steps are read.  The call reads about 64
   samples.  A checkpoint stores a hash of these samples, so that a resumed training can tell other
   data.  Errors: DPT_E_INVALID; DPT_E_NO_MEMORY.  If a sample cannot be read, now or in a later
   step or evaluation: DPT_E_FORMAT if `read` returned that status, else DPT_E_IO. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_from_reader(dpt_context *context,
                                                            const dpt_dataset_memory *memory,
                                                            const dpt_dataset_reader *reader,
                                                            dpt_dataset **out);
/* Destroys a data set.  Accepts NULL.  Trainers and parts that use the data set must be destroyed
   first.  Cannot fail. */
DPT_API void dpt_dataset_destroy(dpt_dataset *dataset);

/* Replaces the samples first to first + count - 1 of a writable data set, for a program whose data
   arrive while it trains.  `images` is (count, height, width, channels).  `labels` is (count) or
   `targets` is (count, classes), whichever kind the data set was created with.  The call copies the
   samples.  Trainers use the new samples from their next step or evaluation on.  Each memory that
   holds the data set gets the written samples only.

   Errors: DPT_E_INVALID; DPT_E_NO_MEMORY; DPT_E_STATE while a step that reads the data is in flight
   (see dpt_trainer_collect; within dpt_fit, `progress` may write after an epoch).  After a failure
   nothing has changed.

   The library does not keep the old samples.  So dpt_trainer_load_state continues with the samples
   that the data set holds at that time, and several processes may hold different samples.  Devices
   that train on a data set that was written are never put on standby, because they could not repeat
   the steps that they missed. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_write(dpt_dataset *dataset, size_t first,
                                                      size_t count, const void *images,
                                                      const void *labels, const float *targets);

/* Divides a data set at random, keyed by the seed.  A `fraction` of the samples, rounded, goes to
   `second` and the others go to `first`.  Both parts share the images of `dataset`, which must
   outlive them.  Errors: DPT_E_INVALID if one part would be empty; DPT_E_NO_MEMORY.  If images are
   read on demand, the call reads about 64 samples of each part, and can fail as
   dpt_dataset_from_reader does. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_split(const dpt_dataset *dataset, double fraction,
                                                      uint64_t seed, dpt_dataset **first,
                                                      dpt_dataset **second);
/* dpt_dataset_statistics computes the mean and the standard deviation of each channel over the
   whole data set.  For DPT_U8 the unit is the range of a pixel: 0 to 1.  If images are read on
   demand, all images are read; images of DPT_F32 are read twice. dpt_dataset_normalize makes the
   network get (value - mean) / deviation; call it before a trainer uses the data.  Errors:
   DPT_E_UNSUPPORTED if there are more than 4 channels; DPT_E_INVALID for values that are not
   allowed; DPT_E_NO_MEMORY; failures of reading images as in dpt_dataset_from_reader. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_statistics(const dpt_dataset *dataset,
                                                           float mean[4], float deviation[4]);
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_normalize(dpt_dataset *dataset, const float mean[4],
                                                          const float deviation[4]);

/* A description of a data set.  The data set owns the strings; those of a part belong to the data
   set that was divided. */
typedef struct dpt_dataset_info {
    const char *name;
    size_t count, height, width, channels, classes;
    const char *source;             /* the directory or "synthetic", "memory", "reader" */
    const char *const *class_names; /* `classes` strings, or NULL */
    bool read_as_needed;            /* images are read on demand */
    size_t vocabulary;              /* the number of ids; 0: the data are no ids */
    size_t labels_per_sample;       /* 0: the data have no labels */
} dpt_dataset_info;

/* Describes a data set.  Cannot fail. */
DPT_API void dpt_dataset_describe(const dpt_dataset *dataset, dpt_dataset_info *out);

/* A survey: the result of reading every image of a data set once, before any training. */
typedef struct dpt_survey dpt_survey;

/* Callbacks of a survey.  All fields are optional.  The thread that called dpt_dataset_survey makes
   the calls. */
typedef struct dpt_survey_options {
    /* Called for each image that cannot be read, with the reason, in the order of the samples. */
    void (*unreadable)(void *user, size_t sample, const char *why);
    void (*progress)(void *user, size_t n_images); /* n_images have been read so far */
    void *user;
} dpt_survey_options;

/* Reads every image of the data set that dpt_dataset_open opens by that name, pictures in folders
   included, and keeps no image in memory.  An image that cannot be read is reported to `unreadable`
   and does not end the survey.  An image that follows an unreadable one may be read twice.  The
   caller owns `out` and destroys it with dpt_survey_destroy.  Errors: those of dpt_dataset_open,
   except for damaged or unreadable pictures: DPT_E_INVALID, DPT_E_NOT_FOUND, DPT_E_FORMAT,
   DPT_E_NO_MEMORY and DPT_E_UNSUPPORTED. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_survey(dpt_context *context, const char *name,
                                                       const char *directory, dpt_part part,
                                                       const dpt_survey_options *options,
                                                       dpt_survey **out);

/* A description of a survey.  The survey owns the arrays and strings. */
typedef struct dpt_survey_info {
    dpt_dataset_info data;      /* without read_as_needed, which is false */
    const size_t *class_counts; /* (data.classes) number of images of each class, unreadable images
                                   included */
    size_t n_unreadable;
    /* Statistics of the readable images, as from dpt_dataset_statistics. has_statistics is false if
       no image is readable or there are more than 4 channels. */
    bool has_statistics;
    float mean[4], deviation[4];
} dpt_survey_info;

/* Describes a survey.  Cannot fail. */
DPT_API void dpt_survey_describe(const dpt_survey *survey, dpt_survey_info *out);
/* Destroys a survey.  Accepts NULL.  Cannot fail. */
DPT_API void dpt_survey_destroy(dpt_survey *survey);

/* ---- Training -------------------------------------------------------------------------------- */

/* A trainer: one replica of a model on every device of a set, and the loop that keeps the replicas
   equal. */
typedef struct dpt_trainer dpt_trainer;

typedef enum dpt_optimizer { DPT_OPTIMIZER_SGD = 0, DPT_OPTIMIZER_ADAMW = 1 } dpt_optimizer;

typedef enum dpt_loss {
    DPT_LOSS_CROSS_ENTROPY = 0, /* softmax cross-entropy with the label */
    DPT_LOSS_SQUARED_ERROR = 1, /* mean squared error to the data's targets */
} dpt_loss;

/* The samples over which batch-norm takes its statistics in training. */
typedef enum dpt_batch_norm_mode {
    DPT_BATCH_NORM_SYNC = 0, /* the global batch; training is then the same on any mix of devices */
    /* Each device's shard.  The running statistics, which evaluation uses and checkpoints store,
       are the mean over the devices, weighted by samples. */
    DPT_BATCH_NORM_LOCAL = 1,
} dpt_batch_norm_mode;

/* The format of gradients between processes.  Within one process gradients are summed in
   float32. */
typedef enum dpt_compression {
    DPT_COMPRESS_NONE = 0, /* as float32 */
    DPT_COMPRESS_BF16 = 1, /* rounded to bfloat16, with error feedback: the rounding error is kept
                              and added to the gradient of the next step */
} dpt_compression;

/* Random changes of each training image.  They are drawn anew in each epoch and keyed by the
   sample. */
typedef struct dpt_augment_options {
    size_t crop_padding; /* the image is padded by this many zeros on each side, and a random window
                            of the original size is taken */
    bool flip;           /* a horizontal flip, with probability 1/2 */
    float erase;         /* the probability of random erasing (Zhong et al. 2020) */
    /* For pictures in folders that are read on demand: a random window of the picture is scaled to
       the image, as by torchvision's RandomResizedCrop.  The window has at least this part of the
       picture's area, and 3/4 to 4/3 of the image's aspect ratio. torchvision's default is 0.08. 0:
       the centre of the picture is used. */
    float resized_crop;
} dpt_augment_options;

typedef struct dpt_trainer_options {
    size_t batch_size; /* samples of the global batch, at most the data's count; default 256, or the
                          data's count if that is less */
    /* Number of batches in a step.  A step computes this many batches one after the other and adds
       up their gradients before devices exchange them.  The step equals the step of one batch of
       that total size, except that batch-norm takes its statistics over each batch. 0 means 1. */
    size_t accumulate;
    /* Largest number of samples that a device computes at once. 0: as many as the device's memory
       holds, and, in a model without batch-norm, as many as its caches hold. */
    size_t micro_batch;
    /* The rule by which a batch is divided into shards. "measured" (default) follows the measured
       throughput of the devices, so that all devices end a step at the same time. "equal" gives
       equal shards. "A:B:C" gives shards in these proportions. "replay:LOG" repeats the shards and
       the algorithms that a log records (docs/log.md). */
    const char *split;
    /* Disables standby.  Standby applies with a measured split, in one process and without
       stop_on_loss.  A device that slows the others down, whatever its shard is, is put on standby:
       it takes no part in steps while measurements show that steps are faster without it.  Every
       now and then a trial measures again whether this is still so.  The library changes the set of
       standby devices, and updates their stale replicas, in a submit with no step in flight.  A
       program that keeps steps in flight must therefore collect all of them now and then.  With
       no_standby all devices always take part.  no_rest is the name of version 0.1 for the same
       field.  It is removed in the next version. */
    union {
        bool no_standby;
        bool no_rest;
    };
    /* By default devices exchange gradients in buckets while the backward pass still runs.  With
       no_overlap devices exchange all gradients at once after the backward pass.  The weights are
       the same to the bit, unless `compress` is set. */
    bool no_overlap;
    dpt_compression compress; /* between processes (docs/processes.md) */
    /* Smallest size in bytes of the first bucket.  The other buckets have an eighth of all weights.
       0: 256 KiB; between processes that do not compress, both sizes follow from the measured cost
       of sums.  A layer with more than an eighth of all weights is computed in parts whose size
       follows from this number.  So the bits of the result depend on this option, but not on what
       is measured. */
    size_t bucket_bytes;
    dpt_optimizer optimizer;
    float lr;             /* default 0.1, of AdamW 0.001 */
    size_t lr_base_batch; /* if set, lr belongs to a batch of this size and is scaled linearly to
                             the samples of a step */
    float momentum, weight_decay;
    bool nesterov;
    bool no_decay_bias;          /* no weight decay on biases and on the parameters of norms */
    float beta1, beta2, epsilon; /* of AdamW; defaults 0.9, 0.999, 1e-8 */
    float clip_norm;             /* largest global norm of the gradient; 0: none */
    dpt_loss loss;
    float label_smoothing; /* in [0, 1); evaluation does not use it */
    dpt_batch_norm_mode batch_norm;
    dpt_augment_options augment;
    const char *init; /* "default" (PyTorch's), "normal:STD" (biases 0), "xavier", "he" */
    uint64_t seed;
    bool no_shuffle; /* take the samples in the order of the data */
    /* true: the failure of a device ends the call in which the device fails, and the program may
       try again with the same device. false: training goes on with the other devices
       (docs/reliability.md). */
    bool stop_on_loss;
    /* Time limit in seconds of one call into a device's backend, in a step, an evaluation or a
       transfer of weights.  A device that exceeds the limit is lost, and is abandoned when the
       trainer is destroyed. 0: 60 seconds, or 20 times the longest step so far if that is more; ten
       minutes before the first step.  While a device is prepared, which compiles and measures, the
       limit is ten times as long.  If the preparation in dpt_trainer_create exceeds its limit,
       dpt_trainer_create fails; later the device is lost. */
    double device_timeout;
    /* Number of steps between two comparisons of the replicas; 0: never.  Before such a step each
       device computes a hash of its training state.  A replica that differs from the others is
       restored from them, and takes part in the step (docs/reliability.md).  In one process only
       (else DPT_E_INVALID). */
    size_t verify_replicas;
    /* Seconds after the loss of a device until the first attempt to readmit it; 0: never.  Each
       following pause is twice as long, up to 64 times this value.  A device that answers is opened
       anew, gets the training state of the others, and takes part again from the next step that is
       submitted with no step in flight.  In one process only, and not with stop_on_loss (else
       DPT_E_INVALID).  After a readmission the results of earlier calls of dpt_trainer_operation
       for the device are no longer valid. */
    double readmit_after;
} dpt_trainer_options;

/* Creates a trainer: prepares every operator on every device and allocates all memory.  Several
   trainers may use one device set.  `options` may be NULL: all defaults.  The caller owns `out` and
   destroys it with dpt_trainer_destroy.  A device that is lost meanwhile, while others are left,
   takes no part in training (dpt_trainer_next_event tells), unless `stop_on_loss` is set.  Errors:
   DPT_E_INVALID if an option is out of range, the data do not fit the model's input or classes, or
   another pointer is NULL (no message if `devices` is NULL); DPT_E_UNSUPPORTED if a device cannot
   compute a layer (the message names both); DPT_E_NO_MEMORY; DPT_E_DEVICE_LOST if a device does not
   answer, or is lost and no other is left; the devices' own failures. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_create(dpt_device_set *devices,
                                                       const dpt_model *model,
                                                       const dpt_dataset *data,
                                                       const dpt_trainer_options *options,
                                                       dpt_trainer **out);
/* Destroys a trainer.  Accepts NULL.  Cannot fail; a device that does not answer keeps its memory
   (dpt_context_abandoned). */
DPT_API void dpt_trainer_destroy(dpt_trainer *trainer);

/* Returns the number of devices that the trainer trains on.  With one process these are the devices
   of the set.  With several processes these are the devices of all processes, in the order of ranks
   and then of their lists.  The functions below number devices in this order.  Cannot fail. */
DPT_API size_t dpt_trainer_device_count(const dpt_trainer *trainer);
/* Describes a device of the trainer.  The trainer owns the strings.  Errors: DPT_E_INVALID if there
   is no such device. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_device(const dpt_trainer *trainer, size_t device,
                                                       dpt_device_description *out);

typedef struct dpt_step_metrics {
    size_t step;  /* from 1 */
    size_t epoch; /* from 1 */
    bool last_of_epoch;
    double lr;      /* the learning rate of the update */
    size_t samples; /* of the global batch */
    double loss;    /* mean over the labels of the global batch */
    size_t hits;    /* correctly classified labels; 0 with DPT_LOSS_SQUARED_ERROR */
    double seconds; /* from the end of the previous step, or from the start of this step if no step
                       was in flight */
    double data_seconds; /* part of `seconds` in which no step was computed because images that are
                            read on demand were not ready in this process */
    size_t n_devices;
    const size_t
        *shards; /* (n_devices) samples of each device.  This array and those below are valid until
                    the second next step, or until a step in which a device is lost */
    const double *device_seconds;   /* (n_devices) busy time in seconds: computing, by the device's
                                       clock, and the device's own part of uploads and exchanges */
    const double *exchange_seconds; /* part of device_seconds: uploads, and the part in exchanges */
    const double *waiting_seconds;  /* time in seconds that the device waited for other devices */
    const char *rebalance;    /* why the shards differ from those of the step before, or NULL */
    const double *throughput; /* modelled samples per second of each device; 0 until known */
    size_t n_lost;            /* number of lost devices */
    size_t labels; /* labels of the global batch that are not ignored: `loss` is the mean over them,
                      and `hits` counts them.  Equal to `samples` with one label a sample */
} dpt_step_metrics;

/* Makes one step: scatter, forward pass, backward pass, all-reduce and update.  All devices vote
   before any training state changes, and the step is committed only if all votes agree.

   After a failure before the commit, the training state and the position in the data are those
   before the step; another call tries the same batch again.  If a device fails during the update of
   a committed step, the call fails too, but the step counts (see dpt_trainer_steps): the other
   replicas have the update, and the next submit restores the device's replica from them.

   Loss of a device.  A device that fails in any call, except by running out of memory, is lost
   together with the other devices of its fault domain.  The same batch is divided among the
   remaining devices and retried, and training goes on without the lost devices
   (dpt_trainer_next_event reports them).  The call fails because of a lost device only if no device
   would be left, if the remaining devices cannot hold a batch, or with the option stop_on_loss.

   Out of memory.  With the split "measured", if a device runs out of memory before the commit, the
   step is retried with the same samples, and that device gets fewer samples from then on.  If a
   device has no memory for the update while another device has made the update, and stop_on_loss is
   not set, the replica is restored at once; if the same happens in the next step, the device is
   lost.  In both cases the call does not fail.

   Errors: DPT_E_NOT_FINITE if the loss or a gradient is not finite; the message names the step, and
   the devices unless it was so on all devices; no training state has changed.  DPT_E_NO_MEMORY if a
   device runs out of memory with another split, or all devices together cannot hold a batch.
   DPT_E_DEVICE and DPT_E_DEVICE_LOST: see above.  DPT_E_STATE within dpt_fit or if steps are in
   flight.  Failures of reading images. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_step(dpt_trainer *trainer, dpt_step_metrics *out);

/* dpt_trainer_step in two halves, so that devices never wait for the host. dpt_trainer_submit
   enqueues the next step and returns. dpt_trainer_collect waits for the oldest step in flight and
   writes its metrics.  At most two steps may be in flight.

   Errors of submit: DPT_E_STATE if two steps are in flight or within dpt_fit; failures of reading
   images (dpt_dataset_from_reader), after which the steps in flight stay in flight.  Errors of
   collect: DPT_E_STATE if no step is in flight; those of dpt_trainer_step.  After any other failure
   all steps in flight are dropped and not committed.  If a step in flight must be submitted again,
   and its images cannot be read, the collect of that step fails, unless a submit before it succeeds
   for both steps. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_submit(dpt_trainer *trainer);
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_collect(dpt_trainer *trainer,
                                                        dpt_step_metrics *out);
/* Returns the number of steps in flight, 0 to 2.  Cannot fail. */
DPT_API size_t dpt_trainer_in_flight(const dpt_trainer *trainer);
/* Returns the number of steps that the weights contain.  Cannot fail. */
DPT_API size_t dpt_trainer_steps(const dpt_trainer *trainer);

/* The kind of a device event. */
typedef enum dpt_device_event_kind {
    DPT_DEVICE_LOST = 0, /* the device takes no part from this step on */
    DPT_DEVICE_NOT_FINITE =
        1, /* the loss or the gradients of this device were not finite, while those of another
              device were; the call that makes the step fails with DPT_E_NOT_FINITE */
    DPT_REPLICA_RESTORED =
        2, /* the device's replica differed from the others before this step, or had missed the
              update of the step before because the device had no memory for it; it was restored */
    DPT_DEVICE_READMITTED = 3, /* the device was lost and takes part again from this step on */
    DPT_ISLAND_LOST = 4,    /* the device is the first of an island whose communicator failed; from
                               this step on its devices exchange gradients through the host */
    DPT_DEVICE_STANDBY = 5, /* the device is put on standby, because steps are faster without it */
    DPT_DEVICE_PRESENT = 6, /* the device was on standby and takes part again */
    DPT_STEPS_IN_SEGMENTS =
        7, /* the device trains alone, but cannot use single-launch steps; it goes on with steps in
              several segments, which are slower and give the same bits */
    /* The names of version 0.1 for three of these.  They are removed in the next version. */
    DPT_DEVICE_RESTS = DPT_DEVICE_STANDBY,
    DPT_DEVICE_WAKES = DPT_DEVICE_PRESENT,
    DPT_STEPS_IN_PARTS = DPT_STEPS_IN_SEGMENTS
} dpt_device_event_kind;

typedef struct dpt_device_event {
    dpt_device_event_kind kind;
    size_t device;     /* the number of the device: see dpt_trainer_device */
    const char *id;    /* as in dpt_device_description */
    size_t step;       /* the first step without the device, or with it again; from 1 */
    dpt_status status; /* why */
    const char
        *message; /* the reason in words; valid until the next call of dpt_trainer_next_event */
} dpt_device_event;

/* Takes the oldest event that the program has not taken yet.  Returns false if there is no such
   event; *out is then unchanged.  Always false within the callbacks of dpt_fit, because dpt_fit
   passes events to `progress`.  Cannot fail. */
DPT_API bool dpt_trainer_next_event(dpt_trainer *trainer, dpt_device_event *out);

/* Sets the learning rate, from the next submitted step on.  If processes set different learning
   rates, that step fails in all processes with DPT_E_INVALID.  Errors: DPT_E_INVALID if `lr` is not
   in (0, 1e6]; DPT_E_STATE within dpt_fit. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_set_lr(dpt_trainer *trainer, float lr);

typedef struct dpt_evaluation {
    size_t samples, hits;
    double loss, accuracy; /* means over the labels; with DPT_LOSS_SQUARED_ERROR `hits` and
                              `accuracy` are 0 */
    double seconds;
    size_t labels; /* that are not ignored; with one label a sample, the number of samples */
} dpt_evaluation;

/* Computes loss and accuracy over a data set, on all devices, in the proportions of the split.
   Errors: DPT_E_STATE if a step is in flight; DPT_E_INVALID if the data do not fit the model;
   DPT_E_NOT_FINITE if the loss is not finite, for example because the weights have overflowed;
   DPT_E_NO_MEMORY; failures of reading images; the devices' own failures if no device is left.
   With several processes, of dpt_trainer_predict too: DPT_E_INVALID if a process has other weights,
   or data of another size, than process 0. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_evaluate(dpt_trainer *trainer,
                                                         const dpt_dataset *data,
                                                         dpt_evaluation *out);

/* Computes the outputs of samples first to first + count - 1 of a data set and writes them to
   `outputs` (count, labels, classes), with the numbers that dpt_model_labels and dpt_model_classes
   return.  The outputs are class probabilities, which are the softmax of the
   logits.  With DPT_LOSS_SQUARED_ERROR the outputs are the model's predictions without softmax.
   Errors: DPT_E_STATE if a step is in flight; DPT_E_INVALID if the samples do not exist or do not
   fit the model, and as for dpt_trainer_evaluate with several processes; DPT_E_NO_MEMORY; failures
   of reading images; the devices' own failures if no device is left. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_predict(dpt_trainer *trainer,
                                                        const dpt_dataset *data, size_t first,
                                                        size_t count, float *outputs);

typedef enum dpt_tensor_kind {
    DPT_PARAMETER = 0, /* and running statistics */
    DPT_GRADIENT = 1,  /* of the last step, reduced over the devices */
    DPT_VELOCITY = 2,  /* SGD's, or AdamW's first moment; DPT_E_NOT_FOUND without momentum */
    DPT_SQUARES = 3,   /* AdamW's second moment; DPT_E_NOT_FOUND for SGD */
} dpt_tensor_kind;

/* dpt_trainer_get reads a tensor from the replica of one device of this process.  dpt_trainer_set
   writes a tensor to every replica.  Both use the layout of a checkpoint.  `size` must be the
   tensor's number of elements.  If a device fails during dpt_trainer_set, the call fails, but the
   other devices have the new values; the next step or evaluation restores the failed device from
   the others.  Several processes must write or load the same values; otherwise the next step fails
   in all processes with DPT_E_INVALID.
   Errors of both: DPT_E_STATE if a step is in flight; DPT_E_INVALID for a wrong kind or size;
   DPT_E_NOT_FOUND for a tensor that does not exist; DPT_E_NO_MEMORY; the devices' own failures.
   dpt_trainer_get: DPT_E_INVALID if the device is not one of this process; DPT_E_DEVICE_LOST if the
   device is lost.  dpt_trainer_set: DPT_E_STATE within dpt_fit, or if no device holds valid weights
   any more. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_get(dpt_trainer *trainer, size_t device,
                                                    dpt_tensor_kind kind, const char *name,
                                                    float *out, size_t size);
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_set(dpt_trainer *trainer, dpt_tensor_kind kind,
                                                    const char *name, const float *values,
                                                    size_t size);

/* dpt_trainer_save writes the weights to a safetensors file with PyTorch's names and layouts.  The
   file is written atomically (temporary file, fsync, rename), from any device that answers.  The
   file also records how the data are normalised (see dpt_weights_describe); dpt_trainer_load does
   not apply that.

   dpt_trainer_load reads the weights of such a file into all replicas.  It checks the whole file
   before it changes anything.  A device that fails meanwhile is treated as by dpt_trainer_set.

   Errors of both: DPT_E_STATE if a step is in flight, or within dpt_fit as described there;
   DPT_E_IO; DPT_E_NO_MEMORY; the devices' own failures. dpt_trainer_load: DPT_E_NOT_FOUND;
   DPT_E_FORMAT if the file is damaged; DPT_E_INVALID if the weights belong to another model or have
   another type than float32 (the message names the tensor). */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_save(dpt_trainer *trainer, const char *path);
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_load(dpt_trainer *trainer, const char *path);
/* Loads weights as dpt_trainer_load does, except those of some layers.  `layers` names these layers
   with commas between them, such as "fc"; NULL or "" names none.  The tensors of these layers
   ("fc.weight") keep their values.  The file may lack these tensors, or have tensors of other
   shapes, for example for other classes.  Errors: as dpt_trainer_load; DPT_E_INVALID also if the
   model has no such layer. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_load_except(dpt_trainer *trainer, const char *path,
                                                            const char *layers);

/* What a weights file records about the training that made it. */
typedef struct dpt_weights_info {
    char model[64], dataset[64];    /* names; "": not recorded */
    size_t height, width, channels; /* of the images; all 0: not recorded */
    size_t classes;                 /* 0: not recorded */
    const char **class_names;       /* `classes` strings, or NULL */
    size_t stat_channels; /* number of valid entries of mean and deviation; 0: not recorded */
    float mean[4],
        deviation[4]; /* as for dpt_dataset_normalize; 0 and 1 if the data were not normalised */
} dpt_weights_info;

/* Reads the header of a weights file.  The call does not check the tensors or their sizes.  The
   caller frees `out` with dpt_weights_release after success.  Errors: DPT_E_NOT_FOUND; DPT_E_IO;
   DPT_E_NO_MEMORY; DPT_E_FORMAT if the header is damaged or contradicts itself. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_weights_describe(dpt_context *context, const char *path,
                                                         dpt_weights_info *out);
/* Frees what dpt_weights_describe has allocated and sets `info` to zero.  Accepts a zeroed struct.
   Cannot fail. */
DPT_API void dpt_weights_release(dpt_weights_info *info);

/* dpt_trainer_save_state writes everything that is needed to resume training: weights, running
   statistics, optimizer state, the position in the data, the step that random numbers are keyed by,
   and what the split "measured" has learnt.  The file is one safetensors file with a checksum over
   every byte.  PyTorch and dpt_trainer_load can read the weights from it. docs/reliability.md
   describes the format.  The file is written atomically, as by dpt_trainer_save.

   dpt_trainer_load_state loads such a file into a trainer of the same model, data and options.  The
   trainer then makes the same steps that the saving trainer would have made, with the same bits if
   the shards are the same.  The devices, the split and the micro-batch may differ.  The learning
   rate is loaded too.  Devices that are the same as before use the same algorithms again; with
   several processes only dpt_fit_options.resume does that.  The call checks everything before it
   changes anything.

   With several processes that compress, all processes must call both functions together: process 0
   writes one file with the error feedback of every process, and all processes read it.  To resume a
   dpt_fit, use dpt_fit_options.resume.

   Errors of both: DPT_E_STATE if a step is in flight or within dpt_fit; DPT_E_IO; DPT_E_NO_MEMORY;
   the devices' own failures. dpt_trainer_load_state: DPT_E_NOT_FOUND; DPT_E_FORMAT if the file is
   damaged, cut off or has weights only; DPT_E_INVALID if the model, the data or an option of the
   trainer differs (the message names it). */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_save_state(dpt_trainer *trainer, const char *path);
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_load_state(dpt_trainer *trainer, const char *path);

/* Returns the bytes that one replica takes on device i, without the data; 0 if there is no device
   i.  Cannot fail. */
DPT_API size_t dpt_trainer_device_bytes(const dpt_trainer *trainer, size_t device);

/* The plan of a device for a full batch.  Byte counts are as the device allocates them.  For a
   device of another process only samples, micro_batch, cached and streamed are known; the other
   fields are 0. */
typedef struct dpt_device_plan {
    size_t samples;         /* samples of the shard */
    size_t micro_batch;     /* samples that the device computes at once */
    bool cached;            /* micro_batch is limited by the device's caches, not by its memory */
    size_t parameter_bytes; /* parameters, and gradients of the same size */
    size_t optimizer_bytes;
    size_t activation_bytes; /* the arena: activations, their gradients and workspaces */
    size_t
        step_bytes; /* step block, indices, samples of the host feed, results of gradient checks */
    size_t data_bytes; /* the device's own copy of the data; 0 if devices share the memory */
    bool streamed; /* the device's memory does not hold the data set: the samples are sent with each
                      step */
    double flops;  /* floating-point operations of a step */
    size_t exchange_bytes; /* bytes that the device sends in a step: gradients and batch-norm's
                              statistics */
} dpt_device_plan;

/* Computes the plan of a device.  Errors: DPT_E_INVALID if there is no such device or the replayed
   log has other batches; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_plan(dpt_trainer *trainer, size_t device,
                                                     dpt_device_plan *out);

/* Returns the bytes of host memory that each process uses for the error feedback of compressed
   exchanges; 0 if dpt_trainer_options.compress is DPT_COMPRESS_NONE or there is one process.  A
   checkpoint stores at most half as many bytes for each process.  Process 0 also needs that much
   memory while it keeps checkpoints or a host copy.  Cannot fail. */
DPT_API size_t dpt_trainer_feedback_bytes(const dpt_trainer *trainer);

/* How a device computes one operation of the training step.  Valid until the trainer is destroyed.
 */
typedef struct dpt_operation {
    const char *layer; /* name of the layer */
    const char *kind;  /* "CONV2D_FORWARD"; a layer may have several of one kind */
    const char
        *algorithm; /* the algorithm that the device has chosen, by the name that the log records */
    const char *measured; /* measured times of the candidates, the fastest first; "" if unknown */
} dpt_operation;

/* Returns the number of operations of the training step on device i; 0 if there is no device i, or
   if it belongs to another process.  Operations are numbered in the order of execution.  Cannot
   fail. */
DPT_API size_t dpt_trainer_operation_count(const dpt_trainer *trainer, size_t device);
/* Describes an operation.  Errors: DPT_E_INVALID if there is no such device or operation. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_operation(const dpt_trainer *trainer, size_t device,
                                                          size_t operation, dpt_operation *out);

/* What a device has done in the collected steps of this trainer.  A step in which some device has
   samples for the first time is left out, because memory is touched and kernels are loaded in it,
   which may take longer than all other steps. */
typedef struct dpt_device_report {
    size_t samples, steps; /* samples trained; steps in which the device had samples */
    double busy_seconds;   /* sums of the values in dpt_step_metrics */
    double exchange_seconds, waiting_seconds;
    double throughput; /* samples per second of busy time: the rate that the device would reach with
                          these shards if it never waited */
    double alone_throughput; /* modelled samples per second if the device had every batch alone,
                                without exchanges, at its mean speed; 0 until the device has had
                                samples twice */
} dpt_device_report;

/* What all devices together have done in the same steps.  A quotient whose divisor is 0 is 0. */
typedef struct dpt_mix_report {
    size_t steps, samples;
    double seconds;    /* time of the steps from start to end, without data_seconds */
    double throughput; /* samples per second */
    double balance; /* `throughput` divided by the sum of the devices' `throughput`: at most about
                       1; less if devices wait */
    double scaling; /* `throughput` divided by the sum of the devices' `alone_throughput`: less than
                       `balance`, because every device has the fixed costs of a step */
} dpt_mix_report;

/* Return the report of one device and of all devices, with any split.  Errors: DPT_E_INVALID if
   there is no such device; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_device_report(const dpt_trainer *trainer,
                                                              size_t device,
                                                              dpt_device_report *out);
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_mix_report(const dpt_trainer *trainer,
                                                           dpt_mix_report *out);

/* ---- The training loop ----------------------------------------------------------------------- */

typedef struct dpt_epoch_metrics {
    size_t epoch;
    double train_loss, train_accuracy;
    bool tested, validated;
    double test_loss, test_accuracy;
    double validation_loss, validation_accuracy;
    double seconds; /* of training, without evaluation */
    double images_per_second;
} dpt_epoch_metrics;

typedef struct dpt_fit_progress {
    const dpt_step_metrics *step;   /* set after each step, else NULL */
    const dpt_epoch_metrics *epoch; /* set after each epoch, else NULL */
    const dpt_device_event *event;  /* set when a device event has occurred, else NULL */
    size_t steps_done, steps_total; /* steps_total is 0 if it is not known */
    double seconds;                 /* since fit began */
} dpt_fit_progress;

typedef enum dpt_schedule_kind {
    DPT_SCHEDULE_CONSTANT = 0,
    DPT_SCHEDULE_STEP =
        1, /* multiplied by `factor` after every `every` epochs, as PyTorch's StepLR */
    DPT_SCHEDULE_COSINE =
        2, /* falls to 0 at the end in each step, as PyTorch's CosineAnnealingLR */
    DPT_SCHEDULE_ONECYCLE = 3, /* Smith and Topin 2018, as PyTorch's OneCycleLR with its defaults;
                                  lr is the maximum; momentum does not change */
} dpt_schedule_kind;

typedef struct dpt_schedule {
    dpt_schedule_kind kind;
    size_t warmup_steps; /* number of first steps in which lr rises linearly to the value of the
                            schedule */
    size_t every;        /* STEP: epochs, default 30 */
    float factor;        /* STEP: default 0.1 */
} dpt_schedule;

/* A number of steps, epochs or seconds, whichever ends first. 0: that unit does not count. */
typedef struct dpt_interval {
    size_t steps, epochs;
    double seconds;
} dpt_interval;

/* The kind of a notice of dpt_fit, for example that training resumes, or that a checkpoint was
   skipped or could not be written. */
typedef enum dpt_notice { DPT_NOTICE_INFO = 0, DPT_NOTICE_WARNING = 1 } dpt_notice;

typedef struct dpt_fit_options {
    /* Number of epochs.  Default 1, unless max_steps or max_seconds is set.  If single steps have
       begun an epoch before the call, that epoch is the first one, and dpt_fit makes its remaining
       steps. */
    size_t epochs;
    size_t max_steps;              /* 0: no limit */
    double max_seconds;            /* 0: no limit */
    const dpt_dataset *test;       /* evaluated after each epoch; may be NULL */
    const dpt_dataset *validation; /* evaluated after each epoch; the best epoch has the lowest loss
                                      on it; may be NULL */
    size_t patience; /* training ends after this many epochs without a lower validation loss; 0:
                        never */
    dpt_schedule schedule;  /* cosine and onecycle need `epochs` or `max_steps` */
    const char *log;        /* JSON Lines (docs/log.md); may be NULL */
    const char *plot;       /* SVG; may be NULL */
    const char *trace;      /* Chrome's trace events (docs/trace.md); may be NULL */
    const char *checkpoint; /* A directory; may be NULL. model.safetensors is written after each
                               epoch, best.safetensors after the epoch with the lowest validation
                               loss so far.  `resume` uses checkpoint-STEP.safetensors, which have
                               the format of dpt_trainer_save_state */
    dpt_interval checkpoint_every; /* all zero: after each epoch */
    size_t checkpoint_keep;        /* number of checkpoint-STEP files that are kept; default 2 */
    size_t host_copy; /* number of steps between two copies of the training state into host memory;
                         if all devices are lost and none can be read, the copy is written as a
                         checkpoint; 0: never */
    bool resume; /* resume from the newest valid checkpoint in `checkpoint`; begin anew if there is
                    none */
    /* Called after each step and after each epoch.  Called without step, epoch and event from time
       to time while the log or the trace is a pipe that nobody reads yet.  Also called after each
       retried step if training has gone back to the weights of standby devices because all others
       were lost; steps_done is then lower than before.  A result other than 0 ends training in good
       order. */
    int (*progress)(const dpt_fit_progress *progress, void *user);
    /* Called with one line of text for each notice; may be NULL. */
    void (*notice)(dpt_notice kind, const char *text, void *user);
    void *user;
} dpt_fit_options;

typedef struct dpt_fit_result {
    size_t steps, epochs; /* steps made, epochs completed */
    double seconds;       /* of training, without evaluation */
    double images_per_second;
    double train_loss, test_loss,
        test_accuracy; /* of the last epoch; NaN if no epoch was completed */
    size_t best_epoch; /* epoch with the lowest validation loss; 0 without validation */
    double best_validation_loss;
    bool stopped;     /* `progress` ended training */
    bool no_patience; /* `patience` ended training */
    /* If `stopped`: the rank of the process whose `progress` ended training, the lowest if there
       were several. */
    size_t stopped_by;
} dpt_fit_result;

/* Calls on the trainer from within `progress` and `notice`, by the thread that called dpt_fit.

   Always allowed: the functions that report what the trainer knows without its devices (devices,
   plan, operations, reports, steps, in_flight, feedback_bytes).  Allowed if `epoch` is set:
   dpt_trainer_evaluate, predict, get and save; with several processes all of them must call.
   Without `epoch` these four give DPT_E_STATE.  Never allowed (DPT_E_STATE): dpt_trainer_step,
   submit, collect, set, set_lr, load, load_state, save_state and dpt_fit. dpt_trainer_next_event
   finds nothing, because `progress` gets the events.

   A failure of such a call fails that call alone.  The callbacks must not destroy anything that
   dpt_fit uses. */

/* Trains the model: makes steps with two steps in flight until a limit is reached.  `options` may
   be NULL: one epoch.  The schedule starts with the call, at the trainer's learning rate; after the
   call the trainer has that learning rate again.  An epoch that a limit cuts short is evaluated
   too.  Files are opened before the first step.  If a reader closes a pipe, the call gives
   DPT_E_IO; no SIGPIPE is raised, and the process's signal handlers do not change.

   Checkpoints.  A background thread writes checkpoints from a copy in host memory, atomically and
   one at a time.  If the disk is slower than `checkpoint_every` asks, there are fewer checkpoints.
   Older checkpoints are deleted after a newer one is durable.  A checkpoint or a weights file that
   cannot be written, for example because the disk is full, causes one notice per cause, and
   training goes on.  The last checkpoint is written when training ends by a limit or by `progress`.

   Resume.  With `resume` training continues as if it had not been interrupted: limits, schedule,
   patience and the figures of the result count from the first beginning, and `log` is continued.
   Damaged checkpoints are skipped with a notice.  Limits may differ from those before, except where
   the schedule depends on the number of steps.  Without `resume` the folder must not hold
   checkpoints of a training that did not end.  Checkpoints of a training that did end, and its
   best.safetensors, are renamed to old-... and deleted when the first checkpoint is durable, or
   renamed back if dpt_fit ends before that.

   Errors.  DPT_E_IO: a log, plot, trace or checkpoint cannot be opened or read; at the end, the
   last checkpoint or the weights could not be written.  DPT_E_STATE: steps are in flight, the call
   is made within dpt_fit, or another training uses the log, the trace or the checkpoint folder.
   DPT_E_INVALID: two outputs are the same file; an output is the log that is replayed; patience
   without validation; a negative or invalid time; a schedule that needs the number of steps when it
   is not known; data that do not fit the model; with `resume`, a checkpoint of another training
   (the message names the setting), or old-... files; without `resume`, checkpoints of a training
   that did not end.  DPT_E_FORMAT: with `resume`, no checkpoint is valid.  All errors of
   dpt_trainer_step and dpt_trainer_evaluate.  After a failure no step is in flight. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_fit(dpt_trainer *trainer, const dpt_fit_options *options,
                                            dpt_fit_result *out);

#ifdef __cplusplus
}
#endif

#endif
