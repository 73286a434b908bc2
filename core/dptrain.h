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
    /* A device list.  Only the backends that this list names are loaded, so that the program does
       not wait for other drivers; every other backend counts as absent.  NULL, or text that is not
       a device list, means all backends. */
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
    const char *id;      /* "cpu", "cuda:0"; of an open device as it stood in the list */
    const char *alias;   /* "NAME:GROUP:0", by the group that it is in; "" if it is in none */
    const char *backend; /* "cpu" */
    const char *name;    /* "AMD EPYC 9454" */
    const char *detail;  /* driver, libraries, kernels */
    size_t memory_bytes; /* the device's memory, or the limit that was set */
    unsigned n_threads;  /* threads or compute units, 0 if unknown */
    size_t process;      /* the rank of the process that has it, */
    const char *host;    /* and its machine's name; NULL where there are not several processes */
    size_t island; /* of dpt_trainer_device, from 1: devices of this process with the same number
                      sum gradients by means of their backend's; 0: through the host */
} dpt_device_description;

/* Describes a device without opening the device.  The strings in *out stay valid as long as the
   context.  Errors: the backend's own failure for this device; DPT_E_DEVICE_LOST if the device did
   not answer this call or an earlier attempt to open the device. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_backend_describe(dpt_context *context, size_t backend,
                                                         size_t index, dpt_device_description *out);

/* Opens the devices of a list such as "cpu", "cpu:threads=2,cuda:0:memory=2G" or "all" (grammar in
   docs/devices.md); NULL means "all".  The same device may stand twice.
   DPT_E_INVALID: not in the grammar, an unknown backend or parameter, an index or value out of
   range.  DPT_E_ABSENT: a backend that was named has no driver or no device.
   DPT_E_DEVICE_LOST: one that was named, or its backend, did not answer.  "all" leaves such a
   device out, unless there is no other; dpt_backend_status and dpt_backend_describe tell.  This
   context does not ask it again. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_devices_open(dpt_context *context, const char *list,
                                                     dpt_device_set **out);
/* What devices that are opened from here on compute in: those that can, where the list does not
   say (precision=).  The others compute in float32, which is no less exact.
   NULL or "fp32": all in true float32, where the list does not say.  DPT_E_NO_MEMORY.
   dpt_devices_open then: DPT_E_INVALID if no device of the list is of a backend that knows this
   precision, DPT_E_UNSUPPORTED if one cannot compute in it. */
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

/* What a device was seen to do, by the host's clock, waits included.  The median of several times.
 */
typedef struct dpt_device_rates {
    double flops; /* floating-point operations a second of a float32 matrix product, 2 n^3 for
                     n by n matrices; n is 1024, less on a slow device */
    double upload_bytes; /* bytes a second from host memory, as the device's backend allocates it */
    double download_bytes; /* bytes a second to it */
    double copy_bytes;     /* bytes a second from one place of the device's memory to another, each
                              byte counted once */
    bool host_memory;      /* the device's memory is the host's: uploads and downloads are copies
                              within it */
} dpt_device_rates;

/* Measures the rates of an open device and waits for the result.  The measurement starts after all
   work that the device has in its queue.  The measurement takes about a second and up to 128 MiB of
   the device's memory.  The throttle= parameter is ignored.  Errors: the device's own failures;
   DPT_E_UNSUPPORTED if the device has no matrix product. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_device_measure(dpt_device *device, dpt_device_rates *out);

/* ---- Several processes ----------------------------------------------------------------------- */

/* Joins the processes that a launcher of MPI (mpirun) has started together with this one: from then
   on trainers of this context train over the devices of all of them (docs/processes.md), and calls
   on trainers are made by all processes alike, in the same order.  Without a launcher, or with
   DPTRAIN_TRANSPORT=none in the environment, nothing happens.  Before the first trainer, once.
   DPT_E_ABSENT: a launcher was there, but the plug-in for MPI or its library is missing.
   DPT_E_INVALID: the processes have different versions of dptrain, or are different programs; the
   launcher's variable is no number, or DPTRAIN_TRANSPORT_DELAY no time. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_processes_join(dpt_context *context);
/* The same for a program that does several things: `purpose`, a few words, is this one, and
   DPT_E_INVALID names processes that are there for another one.  "" of dpt_processes_join. */
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
/* What a sum over processes costs, and how collectives travel because of it. */
typedef struct dpt_link {
    double alpha, beta; /* seconds, and seconds a byte: n bytes on every process take alpha + beta
                           n; zeros where there is one process */
    const char *route;  /* "direct", to everybody, or "ring", from neighbour to neighbour */
    size_t window;      /* chunks of 256 KiB under way at the same time */
} dpt_link;
/* Times some sums between the processes, which all call this, and chooses route and window by them,
   alike in all; neither changes a bit of any result.  Creating a trainer does so by itself; without
   either collectives go directly, three chunks at a time.  `out` may be NULL.
   Errors: DPT_E_NO_MEMORY; the failure of the transport. */
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
/* Destroys a model.  Accepts NULL.  Cannot fail. */
DPT_API void dpt_model_destroy(dpt_model *model);

/* Adds the input of the network: images of height, width, channels.  A model has one input.  A
   failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_input(dpt_model *model, size_t height, size_t width, size_t channels);
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
/* Adds a layer that turns (h, w, c) into one vector.  The logical order of the elements is c, h, w,
   as in PyTorch.  A failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_flatten(dpt_model *model, dpt_value x);

/* Ends the building of a model.  `logits` are the scores of the classes, or the predictions of a
   regression (see dpt_loss).  Errors: the first failure of a building function; DPT_E_STATE if the
   model is already finished; DPT_E_INVALID if `model` is NULL, `logits` is no value of the model,
   `logits` is an image, a layer does not lead to `logits`, or the model has no parameters;
   DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_model_finish(dpt_model *model, dpt_value logits);

/* Returns the name of a model.  The model owns the string.  Cannot fail. */
DPT_API const char *dpt_model_name(const dpt_model *model);
/* Returns the number of scalars that are trained; 0 before dpt_model_finish.  Cannot fail. */
DPT_API size_t dpt_model_parameter_count(const dpt_model *model);
/* Returns the number of classes, which is the size of the logits; 0 before dpt_model_finish.
   Cannot fail. */
DPT_API size_t dpt_model_classes(const dpt_model *model);

/* Tensors as they stand in a checkpoint: PyTorch's names, shapes and layouts.  Parameters, and the
   running statistics of batch-norm. */
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

/* Layers in the order of computation, the input first. */
typedef struct dpt_layer_info {
    const char *name;               /* "conv1"; of layers without parameters a generated one */
    const char *kind;               /* "conv2d" */
    size_t height, width, channels; /* of the output of one sample */
    size_t parameters;              /* scalars that are trained */
    double multiply_adds;           /* of forward, a sample; convolutions and linear layers */
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

/* Opens by name: "fashion-mnist", "mnist", "cifar10", "synthetic:HxWxC:CLASSES:COUNT", "idx" for
   any IDX pair in `directory` (train-images-idx3-ubyte, t10k-..., each also with .gz), or
   "folder:HxW" (colour) or "folder:HxWx1" (grey) for the PNG and JPEG pictures in
   `directory`/train/CLASS and `directory`/test/CLASS, which are cut and scaled to H x W as by
   dpt_picture_read; classes are the folders of train, for both parts, and samples are sorted by the
   bytes of their names.  "folder:HxW:stream", and any folder whose images would take more than half
   of the machine's memory, is read as it is needed (dpt_dataset_from_reader).  Search order:
   `directory`, $DPTRAIN_DATA, the user's cache, the distribution's package of the data.  A
   directory that is given and does not have the files is an error.  DPT_E_INVALID unknown name;
   DPT_E_NOT_FOUND (the message tells how to get it); DPT_E_FORMAT; DPT_E_NO_MEMORY;
   DPT_E_UNSUPPORTED: the library was built without what reads such a picture. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_open(dpt_context *context, const char *name,
                                                     const char *directory, dpt_part part,
                                                     dpt_dataset **out);

/* The images of one IDX file, gzipped or not, without their labels: for dpt_trainer_predict.  Of
   `classes` classes.  DPT_E_IO, DPT_E_NOT_FOUND; DPT_E_FORMAT for a damaged file, or one that does
   not hold images. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_open_images(dpt_context *context, const char *path,
                                                            size_t classes, dpt_dataset **out);

/* What a picture becomes: an image as data sets have them. */
typedef struct dpt_picture_shape {
    size_t height, width; /* 1 to 65536 */
    size_t channels;      /* 1 or 3 */
    bool scaled;          /* its middle, of this aspect, is scaled; else it must have this size */
} dpt_picture_shape;

/* Reads a PNG or JPEG picture, told by its content, into pixels (height, width, channels), 0 to
   255. Colours become grey by their luma, grey becomes three equal channels, what is transparent
   shows black.  docs/data.md tells how it is scaled: the same bytes on every machine.
   DPT_E_NOT_FOUND, DPT_E_IO, DPT_E_NO_MEMORY; DPT_E_INVALID: no such shape, or a picture of another
   size that is not to be scaled; DPT_E_FORMAT: no picture, damaged, or larger than 256 MiB or 2^28
   pixels; DPT_E_UNSUPPORTED: the library was built without what reads it.  After a failure pixels
   are undefined. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_picture_read(dpt_context *context, const char *path,
                                                     const dpt_picture_shape *shape,
                                                     uint8_t *pixels);

typedef struct dpt_dataset_memory {
    size_t count, height, width, channels, classes;
    dpt_dtype dtype;       /* DPT_U8 or DPT_F32 */
    const void *images;    /* (count, height, width, channels) */
    const void *labels;    /* (count) of label_dtype, 0 to classes - 1; or NULL */
    dpt_dtype label_dtype; /* DPT_I32, or DPT_U8, which 0 stands for */
    const float *targets;  /* (count, classes) for DPT_LOSS_SQUARED_ERROR; or NULL.  Without either
                              the data are for dpt_trainer_predict alone */
    /* The network sees (value / 255 - mean) / deviation for DPT_U8, (value - mean) / deviation for
       DPT_F32, per channel; deviation 0 means 1.  More than 4 channels: all zero. */
    float mean[4], deviation[4];
    bool writable; /* dpt_dataset_write will replace samples */
} dpt_dataset_memory;

/* Copies images, labels and targets.
   Errors: DPT_E_INVALID if the data are not valid; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_from_memory(dpt_context *context,
                                                            const dpt_dataset_memory *memory,
                                                            dpt_dataset **out);

enum { DPT_READER_WHY_BYTES = 256 };

/* Who makes images as they are needed, for data that do not fit into memory. */
typedef struct dpt_dataset_reader {
    /* Makes the image of a sample (height, width, channels), as it is in this epoch of training,
           from 1, or, for `epoch` 0, as it is for everything else: the same whenever it is asked
       for. Called for several samples at once, by threads of dptrain's own, and ahead of the steps
       that need them: until the data set is destroyed, with which `user` must live.  Where it does
       not return DPT_OK the sample is asked for once more when it is needed, and then the step or
       evaluation fails; `why` may say why. */
    dpt_status (*read)(void *user, size_t sample, size_t epoch, void *image,
                       char why[DPT_READER_WHY_BYTES]);
    void *user;
    size_t n_threads; /* that call it; 0: as many as the process has processors.  At most 16 */
} dpt_dataset_reader;

/* A data set whose images are read by the program: in `memory`, images is NULL.  Labels and targets
   are copied.  Devices get the samples of a step with the step (dpt_device_plan.streamed), and
   those of the next steps are read meanwhile.  Some 64 samples are read at once, which tell the
   data from others when training is resumed.  DPT_E_INVALID, DPT_E_NO_MEMORY; and where a sample
   cannot be read, now or in a step or evaluation, DPT_E_FORMAT if that is what `read` returned, and
   DPT_E_IO for everything else. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_from_reader(dpt_context *context,
                                                            const dpt_dataset_memory *memory,
                                                            const dpt_dataset_reader *reader,
                                                            dpt_dataset **out);
DPT_API void dpt_dataset_destroy(dpt_dataset *dataset);

/* Replaces samples [first, first + count) of a writable data set, for a program whose data come as
   it trains: trainers see the new ones from their next step or evaluation on, and each memory that
   holds the data gets what has been written and no more.  images (count, height, width, channels);
   labels (count) or targets (count, classes), of the kind that the data set was made of.  It takes
   a copy. DPT_E_INVALID, or DPT_E_STATE while a step that reads the data is in flight
   (dpt_trainer_collect; in dpt_fit, from `progress` behind an epoch): then nothing has changed.

   What the samples were is forgotten: a state (dpt_trainer_load_state) is gone on with whatever the
   data set holds, processes may hold different samples, and devices that train on one do not rest,
   since they could not do steps again. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_write(dpt_dataset *dataset, size_t first,
                                                      size_t count, const void *images,
                                                      const void *labels, const float *targets);

/* Divides a data set at random, keyed by the seed: `fraction` of the samples, rounded, go to
   *second, the others to *first.  Both share the images of `dataset`, which outlives them.
   DPT_E_INVALID if one of them would be empty.  Where images are read as they are needed, some 64
   of each part are read, and failures are those of dpt_dataset_from_reader. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_split(const dpt_dataset *dataset, double fraction,
                                                      uint64_t seed, dpt_dataset **first,
                                                      dpt_dataset **second);
/* Mean and standard deviation of each channel over the whole data set, in units of the pixels'
   range 0 to 1 for DPT_U8; up to 4 channels (DPT_E_UNSUPPORTED).  Images that are not in memory are
   all read, of DPT_F32 twice, and may fail as in dpt_dataset_from_reader.  `normalize` makes the
   network see (value - mean) / deviation; it comes before a trainer uses the data. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_statistics(const dpt_dataset *dataset,
                                                           float mean[4], float deviation[4]);
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_normalize(dpt_dataset *dataset, const float mean[4],
                                                          const float deviation[4]);

/* Strings are the data set's, or the whole's that it is a part of. */
typedef struct dpt_dataset_info {
    const char *name;
    size_t count, height, width, channels, classes;
    const char *source;             /* the directory or "synthetic", "memory", "reader" */
    const char *const *class_names; /* `classes` strings, or NULL */
    bool read_as_needed;            /* its images are not in memory */
} dpt_dataset_info;

/* Describes a data set.  Cannot fail. */
DPT_API void dpt_dataset_describe(const dpt_dataset *dataset, dpt_dataset_info *out);

/* A look at all of a part of a data set before anything is trained on it. */
typedef struct dpt_survey dpt_survey;

/* All optional.  Called by the thread that looks. */
typedef struct dpt_survey_options {
    /* An image that cannot be read, and why, in the order of the samples. */
    void (*unreadable)(void *user, size_t sample, const char *why);
    void (*progress)(void *user, size_t n_images); /* so many have been looked at */
    void *user;
} dpt_survey_options;

/* Reads every image of what dpt_dataset_open opens by that name once (some behind one that cannot
   be read once more), pictures in folders too, and keeps no picture in memory: those that cannot be
   read are told and passed over.  Failures are those of dpt_dataset_open, but for pictures that are
   damaged or cannot be opened.
   These failures are DPT_E_INVALID, DPT_E_NOT_FOUND, DPT_E_FORMAT, DPT_E_NO_MEMORY and
   DPT_E_UNSUPPORTED. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_dataset_survey(dpt_context *context, const char *name,
                                                       const char *directory, dpt_part part,
                                                       const dpt_survey_options *options,
                                                       dpt_survey **out);

/* What belongs to the survey lives as long. */
typedef struct dpt_survey_info {
    dpt_dataset_info data;      /* (read_as_needed is not told) */
    const size_t *class_counts; /* (data.classes) images of each class, readable or not */
    size_t n_unreadable;
    /* Of what can be read, as dpt_dataset_statistics has them; false: there is nothing, or more
       than 4 channels. */
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

/* Over what batch-norm takes its statistics in training. */
typedef enum dpt_batch_norm_mode {
    DPT_BATCH_NORM_SYNC = 0,  /* the global batch: the same training on any devices */
    DPT_BATCH_NORM_LOCAL = 1, /* each device's share; running statistics, which are evaluated and
                                 saved, are the sample-weighted mean over the devices */
} dpt_batch_norm_mode;

/* How gradients travel between processes; within one they are summed as they are. */
typedef enum dpt_compression {
    DPT_COMPRESS_NONE = 0, /* as float32 */
    DPT_COMPRESS_BF16 = 1, /* rounded to bfloat16, with error feedback: what rounding drops is kept
                          and added in the next step */
} dpt_compression;

/* Random changes of each training image, drawn anew in each epoch and keyed by the sample. */
typedef struct dpt_augment_options {
    size_t crop_padding; /* a random window of the image padded by this many zeros */
    bool flip;           /* horizontally, every second one */
    float erase;         /* the probability of random erasing (Zhong et al. 2020) */
    /* Of pictures in folders that are read as they are needed: a window anywhere in the picture, of
       at least this part of its area and up to all of it, and of 3/4 to 4/3 of the images' aspect,
       is scaled to the image (RandomResizedCrop of torchvision, whose default is 0.08); 0: the
       middle. */
    float resized_crop;
} dpt_augment_options;

typedef struct dpt_trainer_options {
    size_t batch_size; /* the GLOBAL batch, at most the data's count; default 256, or that if it is
                          less */
    /* A step takes so many batches, one after the other, whose gradients are summed before devices
       exchange them: it is the step of one batch that many times as large, but that a batch-norm
       takes its statistics over each.  0: 1. */
    size_t accumulate;
    /* Most samples that a device computes at once; 0: what its memory holds, and without
       batch-norm what its caches do. */
    size_t micro_batch;
    /* Shares of a batch: "measured" (default) follows what devices have been measured to do, so
       that all end a step at the same time; "equal"; "A:B:C"; "replay:LOG", which takes the
       algorithms that the log records as well (docs/log.md). */
    const char *split;
    /* Where shares are measured, in one process, and without stop_on_loss, a device that holds the
       others up whatever its share rests: it takes no part while steps are measured to be faster
       without it, and is tried again now and then.  Devices go to rest, wake up, and get the
       others' weights in a submit with nothing in flight: who keeps steps in flight drains them now
       and then.  With no_rest all take part always. */
    bool no_rest;
    /* Devices exchange gradients in buckets while backward goes on; with no_overlap all at once
       when it is over.  The training is the same to the bit, unless it compresses. */
    bool no_overlap;
    dpt_compression compress; /* between processes (docs/processes.md); one alone does nothing */
    /* Least size of a bucket, the first one's; others have an eighth of all weights.  0: 256 KiB,
       but between processes that do not compress both follow from what sums over them are measured
       to take.  Layers with more than an eighth of all weights are computed in parts that follow
       from the same number, so that bits depend on it, but not on what is measured. */
    size_t bucket_bytes;
    dpt_optimizer optimizer;
    float lr;             /* default 0.1, of AdamW 0.001 */
    size_t lr_base_batch; /* if set, lr is that of a batch of this size and is scaled linearly, to
                             the samples of a step */
    float momentum, weight_decay;
    bool nesterov;
    bool no_decay_bias;          /* no weight decay on biases and on the parameters of norms */
    float beta1, beta2, epsilon; /* of AdamW; defaults 0.9, 0.999, 1e-8 */
    float clip_norm;             /* largest global norm of the gradient; 0: none */
    dpt_loss loss;
    float label_smoothing; /* in [0, 1); evaluation is without */
    dpt_batch_norm_mode batch_norm;
    dpt_augment_options augment;
    const char *init; /* "default" (PyTorch's), "normal:STD" (biases 0), "xavier", "he" */
    uint64_t seed;
    bool no_shuffle; /* batches in the order of the data */
    /* A device that fails ends the call that it fails in, and training can be tried again with it.
       Otherwise training goes on without it (docs/reliability.md). */
    bool stop_on_loss;
    /* A device that takes longer than this for one call into its backend, in a step, an evaluation
       or a transfer of weights, is lost, and at the end left behind.  0: 60 seconds, or 20 times
       the longest step so far if that is more; 10 minutes before the first.  While it is prepared,
       which compiles and measures, ten times as long: dpt_trainer_create fails where that is not
       enough, and later the device is lost. */
    double device_timeout;
    /* Every so many steps a hash of all that lasts of each replica is compared, before anything is
       computed with it; one that differs from the others is restored from them, and the step is
       done with it (docs/reliability.md).  0: never.  Within one process (DPT_E_INVALID). */
    size_t verify_replicas;
    /* A lost device is tried again after so many seconds, and then after twice as many, up to 64
       times as many, however often it is lost; one that answers is opened anew, gets the others'
       weights and takes part again, as soon as a step is submitted with none in flight.  0: never.
       Within one process, and not with stop_on_loss (DPT_E_INVALID).  What was asked about the
       device before (dpt_trainer_operation) is no longer valid. */
    double readmit_after;
} dpt_trainer_options;

/* Prepares every operator on every device and allocates all memory.  Several trainers may stand on
   one device set.  `options` may be NULL: all defaults.
   DPT_E_INVALID: an option out of range, data that do not fit the model's input or classes, another
   pointer that is NULL (without devices there is no message); DPT_E_UNSUPPORTED: a layer that a
   device cannot compute, both named; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_create(dpt_device_set *devices,
                                                       const dpt_model *model,
                                                       const dpt_dataset *data,
                                                       const dpt_trainer_options *options,
                                                       dpt_trainer **out);
/* Destroys a trainer.  Accepts NULL.  Cannot fail; a device that does not answer keeps its memory
   (dpt_context_abandoned). */
DPT_API void dpt_trainer_destroy(dpt_trainer *trainer);

/* The devices that it trains on: those of the set, or with several processes those of all, in the
   order of processes and then of their lists.  This is how devices are numbered below.
   Cannot fail. */
DPT_API size_t dpt_trainer_device_count(const dpt_trainer *trainer);
/* DPT_E_INVALID: there is no such device.  The strings stay valid as long as the trainer. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_device(const dpt_trainer *trainer, size_t device,
                                                       dpt_device_description *out);

typedef struct dpt_step_metrics {
    size_t step;  /* from 1 */
    size_t epoch; /* from 1 */
    bool last_of_epoch;
    double lr;           /* learning rate of its update */
    size_t samples;      /* of the global batch */
    double loss;         /* mean over the global batch */
    size_t hits;         /* correctly classified; 0 with DPT_LOSS_SQUARED_ERROR */
    double seconds;      /* from the previous step's end, or from its own start */
    double data_seconds; /* of these, without a step under way, since this process's images were not
                            there yet which are read as they are needed */
    size_t n_devices;
    const size_t *shards;           /* samples per device; these arrays are valid until the second
                                       next step, or one in which a device is lost */
    const double *device_seconds;   /* busy time per device: computing by its own clock, and its
                                       own part of uploads and exchanges */
    const double *exchange_seconds; /* of these, its uploads and its part of exchanges */
    const double *waiting_seconds;  /* for the other devices */
    const char *rebalance;          /* why shards differ from those of the step before, or NULL */
    const double *throughput; /* samples per second of each device, as modelled; 0 until known */
    size_t n_lost;            /* devices that take no part any more */
} dpt_step_metrics;

/* One step: scatter, forward, backward, all-reduce, update.  It is confirmed on all devices before
   anything that lasts changes.  When it fails before that, weights, optimizer state and the
   position in the data are those before the step, and a further call tries the same batch again.  A
   device that fails during the confirmed update fails the call too, but the step counts (see
   dpt_trainer_steps): the other replicas keep it, and the next submit restores the device from
   them.  With the split "measured" a device that runs out of memory before that fails nothing: the
   step is repeated with the same samples, of which that device gets fewer from then on.  One that
   has no memory for the update fails nothing either, with any split, if another one has made it,
   and without stop_on_loss: it is restored at once, and lost if it has none for the next one.

   A device that fails, whatever the call and unless it is for lack of memory, is lost, together
   with those of its fault domain: the same batch is divided among the others and repeated, and
   training goes on without it (dpt_trainer_next_event tells).  The call fails for that only where
   no device would be left, or where the others do not hold a batch, or with the option
   stop_on_loss: then it fails as said above. DPT_E_NOT_FINITE: the loss or the gradients, with the
   step named, and the devices where it was not so on all of them; nothing that lasts has changed;
   DPT_E_NO_MEMORY: with another split, or when the devices together hold no batch; DPT_E_DEVICE and
   DPT_E_DEVICE_LOST. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_step(dpt_trainer *trainer, dpt_step_metrics *out);

/* The same in two halves, so that devices never wait for the host: submit enqueues the next step
   and returns, unless two are in flight already (DPT_E_STATE); collect waits for the oldest.
   DPT_E_STATE if there is none.  After a failure what is in flight is dropped, uncommitted.
   Submitting fails where images cannot be read (dpt_dataset_from_reader): then what is in flight
   stays there, and where such a step was in flight, and had to be submitted again behind another
   one, collecting fails in its turn, unless submit, called before, can submit both. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_submit(dpt_trainer *trainer);
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_collect(dpt_trainer *trainer,
                                                        dpt_step_metrics *out);
/* Returns the number of steps in flight, 0 to 2.  Cannot fail. */
DPT_API size_t dpt_trainer_in_flight(const dpt_trainer *trainer);
/* Returns the number of steps that the weights contain.  Cannot fail. */
DPT_API size_t dpt_trainer_steps(const dpt_trainer *trainer);

/* What has happened to a device. */
typedef enum dpt_device_event_kind {
    DPT_DEVICE_LOST = 0,       /* it takes no part from this step on */
    DPT_DEVICE_NOT_FINITE = 1, /* its loss or gradients were not finite, and others' were: the call
                                  that made the step fails with DPT_E_NOT_FINITE */
    DPT_REPLICA_RESTORED = 2,  /* its replica differed from the others before this step, or had
                                  missed the update of the one before for lack of memory */
    DPT_DEVICE_READMITTED = 3, /* it was lost, and takes part again from this step on */
    DPT_ISLAND_LOST = 4, /* the first of several that would exchange gradients among themselves, and
                            from this step on do so through the host */
    DPT_DEVICE_RESTS = 5,   /* steps are faster without it, and it takes no part */
    DPT_DEVICE_WAKES = 6,   /* they are not any more, and it does again */
    DPT_STEPS_IN_PARTS = 7, /* it trains alone, but cannot do a step as one piece of work: it goes
                               on as it did beside others, slower and to the same bits */
} dpt_device_event_kind;

typedef struct dpt_device_event {
    dpt_device_event_kind kind;
    size_t device;       /* its place among all that train: dpt_trainer_device */
    const char *id;      /* as in dpt_device_description */
    size_t step;         /* the first that is done without it, or with it again; from 1 */
    dpt_status status;   /* why */
    const char *message; /* likewise, in words; valid until the next call of next_event */
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
    double loss, accuracy; /* means; with DPT_LOSS_SQUARED_ERROR hits and accuracy are 0 */
    double seconds;
} dpt_evaluation;

/* Loss and accuracy over a data set, on all devices, in the split's proportions.  No step in flight
   (DPT_E_STATE).  DPT_E_NOT_FINITE: the loss, as with weights that overflowed.  With several
   processes DPT_E_INVALID, likewise by dpt_trainer_predict: they have other weights, or data of
   another size, than the first one. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_evaluate(dpt_trainer *trainer,
                                                         const dpt_dataset *data,
                                                         dpt_evaluation *out);

/* Computes the outputs of samples first to first + count - 1 of a data set and writes them to
   `outputs` (count, classes).  The outputs are class probabilities, which are the softmax of the
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

/* Weights as safetensors with PyTorch's names and layouts.  save writes atomically (temporary file,
   fsync, rename), from any device that still answers.  load checks everything before it changes
   anything: DPT_E_FORMAT for a damaged file, DPT_E_INVALID for the weights of another model, with
   the tensor named, or for another type than float32; a device that fails meanwhile is treated as
   by dpt_trainer_set.  How the data are normalised is saved too, and not applied by load: see
   dpt_weights_describe. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_save(dpt_trainer *trainer, const char *path);
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_load(dpt_trainer *trainer, const char *path);
/* The same without some layers, whose names stand in `layers` with commas between them, such as
   "fc" (NULL or "": none): their tensors ("fc.weight") keep the values that they have, and the file
   has none of them, or others, for other classes.  DPT_E_INVALID also: the model has no such
   layer. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_load_except(dpt_trainer *trainer, const char *path,
                                                            const char *layers);

/* What a file of weights says of the training that they come from. */
typedef struct dpt_weights_info {
    char model[64], dataset[64];    /* names; "": it does not say */
    size_t height, width, channels; /* of the images; all 0: it does not say */
    size_t classes;                 /* 0: it does not say */
    const char **class_names;       /* `classes` strings, or NULL */
    size_t stat_channels;           /* that mean and deviation are of; 0: it does not say */
    float mean[4],
        deviation[4]; /* as dpt_dataset_normalize takes them; 0 and 1 if it was not done */
} dpt_weights_info;

/* Reads the file's header alone, and does not look whether the rest is sound, nor whether its
   tensors are of that size.  DPT_E_NOT_FOUND, DPT_E_IO, DPT_E_NO_MEMORY; DPT_E_FORMAT where it
   contradicts itself.  To be released, unless it fails. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_weights_describe(dpt_context *context, const char *path,
                                                         dpt_weights_info *out);
/* Frees what describing has made; accepts a zeroed one, and zeroes it.  Cannot fail. */
DPT_API void dpt_weights_release(dpt_weights_info *info);

/* Everything that training goes on from: weights, running statistics, the optimizer's state, the
   position in the data, the step that random numbers are keyed by, what the split "measured" has
   learnt.  One safetensors file with a checksum over every byte, in which PyTorch and
   dpt_trainer_load find the weights (docs/reliability.md has the format).  A trainer of the same
   model, data and options that loads it makes the steps that this one would make: the same bits
   with the same shares.  No step in flight. save writes atomically, as dpt_trainer_save does.  load
   checks everything before it changes anything: DPT_E_FORMAT for a file that is damaged, cut off,
   or has weights only; DPT_E_INVALID if the trainer's model, data or an option is another one,
   which is named.  The devices, the split and the micro-batch may be others.  The learning rate is
   loaded too.  Devices that are what they were take the algorithms that they had; of several
   processes with dpt_fit_options.resume alone.  Where several processes compress what they
   exchange, all call either together: the first one writes, with what every process owes, and all
   read.  Outside dpt_fit; what a fit was in the middle of, dpt_fit_options.resume goes on with. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_save_state(dpt_trainer *trainer, const char *path);
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_load_state(dpt_trainer *trainer, const char *path);

/* Bytes that one replica takes through the vtable on device i: everything but the data.  0 if there
   is no device i.  Cannot fail. */
DPT_API size_t dpt_trainer_device_bytes(const dpt_trainer *trainer, size_t device);

/* What a full batch means for device i; bytes as the device allocates them.  Of another process's
   device samples, micro_batch, cached and streamed are known, and the rest is 0. */
typedef struct dpt_device_plan {
    size_t samples;         /* its share */
    size_t micro_batch;     /* samples at once */
    bool cached;            /* no more since its caches hold no more; its memory would */
    size_t parameter_bytes; /* parameters, and gradients of the same size */
    size_t optimizer_bytes;
    size_t activation_bytes; /* the arena: activations, their gradients, workspaces */
    size_t step_bytes;       /* step block and indices, fed samples, what is told of gradients */
    size_t data_bytes;       /* of the data that it holds for itself, 0 where memory is shared */
    bool streamed; /* its memory does not hold the data: a step's samples are sent with the step */
    double flops;  /* of a step */
    size_t exchange_bytes; /* that it sends in a step: gradients and batch-norm's statistics */
} dpt_device_plan;

/* DPT_E_INVALID: there is no such device, or the replayed log is of other batches. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_plan(dpt_trainer *trainer, size_t device,
                                                     dpt_device_plan *out);

/* Host memory that each process takes to compress what it exchanges with others, if there are any:
   0 where dpt_trainer_options.compress is DPT_COMPRESS_NONE.  A checkpoint has half as much, at
   most, for each process, and so has the first process where it keeps checkpoints, or a copy.
   Cannot fail. */
DPT_API size_t dpt_trainer_feedback_bytes(const dpt_trainer *trainer);

/* How a device does one operation of the training step.  Valid until the trainer is destroyed. */
typedef struct dpt_operation {
    const char *layer;     /* whose operation it is */
    const char *kind;      /* "CONV2D_FORWARD"; a layer may have several of one kind */
    const char *algorithm; /* what the device has chosen, by the name that the log records */
    const char *measured;  /* what was measured for that, the fastest first; empty if unknown */
} dpt_operation;

/* Operations of the training step on device i, in their order; 0 if there is no device i, or if it
   belongs to another process.  Cannot fail. */
DPT_API size_t dpt_trainer_operation_count(const dpt_trainer *trainer, size_t device);
/* DPT_E_INVALID: there is no such device or operation. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_operation(const dpt_trainer *trainer, size_t device,
                                                          size_t operation, dpt_operation *out);

/* What a device has done in the steps of this trainer that are collected.  A step in which some
   device has samples for the first time is left out: memory is touched and kernels are loaded in
   it, which may take longer than all the others. */
typedef struct dpt_device_report {
    size_t samples, steps; /* trained; steps in which it had samples */
    double busy_seconds;   /* sums of what dpt_step_metrics has of each step */
    double exchange_seconds, waiting_seconds;
    double throughput;       /* samples a second of its busy time: what it would reach with these
                                shares if it never waited */
    double alone_throughput; /* samples a second if it had every batch to itself, without exchanges,
                                as modelled, at its mean speed; 0 until it has had samples
                                twice */
} dpt_device_report;

/* And all of them together, in the same steps.  A quotient without a divisor is 0. */
typedef struct dpt_mix_report {
    size_t steps, samples;
    double seconds;    /* of the steps, from start to end, but for data_seconds */
    double throughput; /* samples a second */
    double balance;    /* of the sum of the devices' `throughput`: at most about 1, less where
                          devices wait */
    double scaling;    /* of the sum of the devices' `alone_throughput`: less than that, since every
                          device has the fixed costs of a step */
} dpt_mix_report;

/* With any split.  DPT_E_INVALID: there is no such device. */
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
    double seconds; /* of training, without the test */
    double images_per_second;
} dpt_epoch_metrics;

typedef struct dpt_fit_progress {
    const dpt_step_metrics *step;   /* set after each step, else NULL */
    const dpt_epoch_metrics *epoch; /* set after each epoch, else NULL */
    const dpt_device_event *event;  /* set when something has happened to a device, else NULL */
    size_t steps_done, steps_total; /* total: as far as it is known */
    double seconds;                 /* since fit began */
} dpt_fit_progress;

typedef enum dpt_schedule_kind {
    DPT_SCHEDULE_CONSTANT = 0,
    DPT_SCHEDULE_STEP = 1,     /* times `factor` after every `every` epochs: PyTorch's StepLR */
    DPT_SCHEDULE_COSINE = 2,   /* to 0 at the end: CosineAnnealingLR, step by step */
    DPT_SCHEDULE_ONECYCLE = 3, /* Smith and Topin 2018: PyTorch's OneCycleLR with its defaults, lr
                                  being the greatest; momentum stays */
} dpt_schedule_kind;

typedef struct dpt_schedule {
    dpt_schedule_kind kind;
    size_t warmup_steps; /* lr rises linearly over these first steps, to the schedule's own */
    size_t every;        /* STEP: epochs, default 30 */
    float factor;        /* STEP: default 0.1 */
} dpt_schedule;

/* After so many steps, epochs or seconds, whichever is first; 0: that does not count. */
typedef struct dpt_interval {
    size_t steps, epochs;
    double seconds;
} dpt_interval;

/* What dpt_fit has to say: where it goes on; that a checkpoint was passed over or not written. */
typedef enum dpt_notice { DPT_NOTICE_INFO = 0, DPT_NOTICE_WARNING = 1 } dpt_notice;

typedef struct dpt_fit_options {
    /* Default 1, unless max_steps or max_seconds is set.  Where single steps have begun an epoch,
       it is the first of these: its other steps are made. */
    size_t epochs;
    size_t max_steps;              /* 0: no limit */
    double max_seconds;            /* 0: no limit */
    const dpt_dataset *test;       /* evaluated after each epoch; may be NULL */
    const dpt_dataset *validation; /* likewise; chooses the best epoch.  May be NULL */
    size_t patience;        /* end after this many epochs without a lower validation loss; 0: no */
    dpt_schedule schedule;  /* cosine and onecycle need `epochs` or `max_steps` */
    const char *log;        /* JSON Lines (docs/log.md); may be NULL */
    const char *plot;       /* SVG; may be NULL */
    const char *trace;      /* Chrome's trace events (docs/trace.md); may be NULL */
    const char *checkpoint; /* directory: model.safetensors after each epoch, best.safetensors after
                               the best one by validation loss, and what `resume` goes on from:
                               checkpoint-STEP.safetensors, of dpt_trainer_save_state's format.  May
                               be NULL */
    dpt_interval checkpoint_every; /* all zero: each epoch */
    size_t checkpoint_keep;        /* how many of these stay; default 2 */
    size_t host_copy; /* every so many steps all that lasts is copied into host memory, and written
                         as a checkpoint if all devices are lost and none can be read; 0: never */
    bool resume;      /* go on from the newest sound one in `checkpoint`; begin if there is none */
    /* Called after each step and each epoch, and with neither, and no event, every now and then
       while the log or the trace is a pipe that nobody reads yet, and behind each step that is done
       again, since devices that rested have nobody else's weights to go on from: steps_done is less
       then than it was.  A result other than 0 ends training in good order. */
    int (*progress)(const dpt_fit_progress *progress, void *user);
    /* One line each; may be NULL. */
    void (*notice)(dpt_notice kind, const char *text, void *user);
    void *user;
} dpt_fit_options;

typedef struct dpt_fit_result {
    size_t steps, epochs; /* epochs that were completed */
    double seconds;       /* of training, without tests */
    double images_per_second;
    double train_loss, test_loss, test_accuracy; /* of the last epoch; NaN if there was none */
    size_t best_epoch;                           /* by validation loss; 0 without validation */
    double best_validation_loss;
    bool stopped;     /* by progress */
    bool no_patience; /* patience ran out */
    /* The process whose progress stopped it, where it is stopped: the first, if there were several.
     */
    size_t stopped_by;
} dpt_fit_result;

/* Calls on the trainer from within `progress` and `notice`, by the thread that called dpt_fit. What
   the trainer knows of itself may be asked (its devices, plan, operations, reports, steps,
   in_flight, feedback_bytes), and with `epoch` set also what its devices hold:
   dpt_trainer_evaluate, predict, get and save, with several processes by all of them.  Otherwise
   these are DPT_E_STATE; everywhere so are dpt_trainer_step, submit, collect, set, set_lr, load,
   load_state, save_state, and dpt_fit itself; dpt_trainer_next_event finds nothing, since
   `progress` is told.  What fails there fails the call alone.  Nothing that dpt_fit uses is
   destroyed there. */

/* Trains with submit and collect, keeping two steps in flight.  `options` may be NULL: one epoch.
   The schedule starts with the call, at the trainer's learning rate, which is in force again
   afterwards.  An epoch that a limit cuts short is evaluated too.  Files are opened before the
   first step: DPT_E_IO for a log, plot, trace or checkpoint that cannot be written, DPT_E_STATE for
   a log, trace or folder that another training writes.  A pipe that nobody reads any more is a
   DPT_E_IO too: no SIGPIPE comes of it, and the process's signals stay as they are.  DPT_E_INVALID:
   two of them in one file, or one in the log that is replayed, patience without validation, a time
   that is negative or no number, a schedule that must know the number of steps and cannot, data
   that do not fit the model.
   DPT_E_STATE: with steps in flight, or from within dpt_fit.  After a failure nothing is in flight.

   Checkpoints are written in the background from a copy in host memory, atomically, one at a time:
   where the disk is slower than `checkpoint_every` asks, there are fewer.  Older ones are deleted
   once a newer one is durable.  One that cannot be written (a full disk), and weights likewise, is
   a notice, once for each cause, and training goes on; DPT_E_IO at the end if the last one or the
   weights could not be written then either.  The last one is written when training ends, by its
   limits or by `progress`.  One process at a time uses a folder (DPT_E_STATE).

   With `resume` the course goes on as if it had not been interrupted: limits, schedule, patience
   and the result's figures count from where it first began, and `log` is continued.  Checkpoints
   that are damaged are passed over with a notice; DPT_E_FORMAT if none is sound, DPT_E_IO if they
   cannot be read; DPT_E_INVALID if those of an earlier training are set aside there (below) or
   the newest sound one is of another training, with the setting named (dpt_trainer_load_state; the
   learning rate and its schedule also; limits may be others, but where the schedule depends on the
   number of steps).  Without `resume`, DPT_E_INVALID if the folder has checkpoints of a training
   that did not come to its end; those of one that did, and its best.safetensors, are set aside
   (old-...) and deleted when the first checkpoint is durable, or put back if dpt_fit ends before.
 */
DPT_API DPT_CHECK_RESULT dpt_status dpt_fit(dpt_trainer *trainer, const dpt_fit_options *options,
                                            dpt_fit_result *out);

#ifdef __cplusplus
}
#endif

#endif
