/* Devices as the rest of core sees them: the registry of backends, open devices with their driving
   threads, and checked calls through the vtable.

   A device's vtable is called on its driver thread only.  Functions marked [driver] must run there,
   inside a job; all others are called from any other thread. */
#ifndef DPTI_DEVICE_H
#define DPTI_DEVICE_H

#include "backend.h"
#include "base/recorded.h"
#include "dptrain.h"

#include <stdatomic.h>

typedef struct dpti_registry dpti_registry;
typedef struct dpti_driver dpti_driver;
typedef struct dpti_processes dpti_processes;

struct dpt_context {
    dpt_error error;           /* the last failure of a public call */
    dpti_registry *registry;   /* backends found, their state and their devices' descriptions */
    dpti_processes *processes; /* with which trainers of this context train; NULL: none */
    char *precision;           /* of devices that are opened from here on; NULL: their own */
    double device_timeout;     /* dpt_context_options' */
    size_t n_abandoned;        /* driving threads that were given up and have not come back */
};

/* Copies a device's (or any other) record into the context, with `prefix` ("device cuda:0") in
   front of the message if it is not NULL; returns the status. */
dpt_status dpti_context_fail(dpt_context *context, const char *prefix, const dpt_error *error);

enum { DPTI_ID_BYTES = 64 };

/* An open device.  A dpt_device pointer of the public API or the vtable is one of these. */
typedef struct dpti_device {
    dpt_device base; /* first */
    dpt_context *context;
    char id[DPTI_ID_BYTES];    /* as it stood in the list, parameters included: "cpu:threads=1" */
    char alias[DPTI_ID_BYTES]; /* "NAME:GROUP:0", or empty: it is in no group */
    dpt_device_info info;
    size_t memory_limit_bytes;       /* memory=; SIZE_MAX if not set */
    atomic_size_t memory_used_bytes; /* through dpti_alloc */
    double throttle;                 /* [driver] throttle=, at least 1; 1: as fast as it can */
    dpti_driver *driver;
    dpt_stream *stream;  /* the main stream, created with the device */
    atomic_ullong calls; /* of the vtable: odd within one (driver.h) */
    bool lost;           /* [driver] a call returned DPT_E_DEVICE_LOST: only close is called now */
    bool unsynced;      /* [driver] something was enqueued on the main stream since the last sync */
    dpt_error deferred; /* [driver] the first failure of array work; dpt_devices_wait takes it */
    dpt_error given_up; /* why its thread was given up; status DPT_OK: it was not */
    double patience;    /* seconds that a call may last while it is released; 0: by default */
    dpt_open_args *opening; /* what it was opened with, in one allocation */
    bool shut;              /* [driver] lost, and closed: nothing of the vtable is called */
    bool stays; /* another's call that may never return reads its memory: it stays open */
    atomic_size_t n_holders; /* trainers and arrays that have made something on it */
} dpti_device;

static inline dpti_device *dpti_device_of(const dpt_device *device)
{
    return (dpti_device *)(uintptr_t)device;
}

/* [driver] Why the last call failed.  That of a device whose thread was given up: base.error is the
   vtable's, and the call that is still out may write it at any time. */
static inline const dpt_error *dpti_device_error(const dpti_device *device)
{
    return device->given_up.status == DPT_OK ? &device->base.error : &device->given_up;
}

/* [driver] What throttle= makes of work that took so long: waits for the rest of it. */
void dpti_device_throttle(const dpti_device *device, double busy_seconds);

/* Changes throttle= of an open device, behind all that it has to do, and waits: for tests of what
   follows a device's speed.  At least 1. */
void dpti_device_set_throttle(dpti_device *device, double factor);

/* [driver] Closes the vtable of a device that is to be opened again, or never to be called again.
   What was created on it and not released is abandoned; from then on it is lost. */
void dpti_device_shut(dpti_device *device);
/* [driver] Opens a device that is shut, as it was opened at first; a failure leaves it shut.  Who
   still holds what was made on it before would mistake it for the new one's: nobody may. */
DPT_CHECK_RESULT dpt_status dpti_device_reopen(dpti_device *device);

struct dpt_device_set {
    dpt_context *context;
    size_t n_devices;
    dpti_device **devices;
    bool borrowed; /* a subset: the devices are another set's */
};

/* ---- Drivers --------------------------------------------------------------------------------- */

typedef void dpti_job(dpti_device *device, void *argument);

/* Puts a job at the end of the device's queue and returns its ticket (from 1, in order).  Blocks
   while the queue (64 jobs) is full.  `argument` stays valid until the job has run. */
uint64_t dpti_driver_post(dpti_device *device, dpti_job *job, void *argument);
/* Waits until the job with this ticket, and so every earlier one, has run. */
void dpti_driver_wait(dpti_device *device, uint64_t ticket);
/* Posts and waits. */
void dpti_driver_call(dpti_device *device, dpti_job *job, void *argument);

/* ---- Devices that do not answer ----

   A call of the vtable that does not return cannot be ended.  Its thread is given up: when the call
   returns after all, the thread touches nothing but the device and its driver, and ends.  What the
   call itself was given, such as memory for transfers and operators' arguments, is the call's until
   then: whoever gave it leaves it alone. */

/* As dpti_driver_wait, for at most so long: true if the job has run. */
bool dpti_driver_wait_for(dpti_device *device, uint64_t ticket, double seconds);
/* Whether its thread has not been given up. */
bool dpti_driver_is_running(dpti_device *device);
/* Whether this thread is the driver's. */
bool dpti_driver_is_own_thread(const dpti_device *device);
/* A number of its own for the call that the driver is in; 0 if it is in none. */
unsigned long long dpti_driver_call_now(dpti_device *device);
/* Gives the driver up if it is still in that call.  From then on the device is lost, jobs in the
   queue are dropped, and new ones run at once on the thread that posts them, where calls fail with
   `error`. */
bool dpti_driver_abandon(dpti_device *device, unsigned long long call, const dpt_error *error);

/* How long one call may last, and what was done meanwhile, for the message: "while ...". */
typedef struct dpti_limit {
    double seconds;
    char words[160];
} dpti_limit;

/* Seconds for a call that opens or prepares a device: ten times the timeout, or ten minutes. */
double dpti_preparing_seconds(double device_timeout);
/* The same of the context's, with words; `doing` is "while it was opened". */
dpti_limit dpti_preparing_limit(const dpt_context *context, const char *doing);
/* The context's, for a call on an open device that no trainer watches; without end by default. */
dpti_limit dpti_call_limit(const dpt_context *context);

/* One who waits for several drivers looks at each after every pause of so many seconds.  true: the
   call that it is in has lasted too long, and it was given up. */
typedef struct dpti_watch {
    unsigned long long call;
    double seconds; /* that it has been in it */
} dpti_watch;

double dpti_limit_pause(const dpti_limit *limit);
bool dpti_driver_look(dpti_device *device, const dpti_limit *limit, double waited,
                      dpti_watch *watch);

/* Waits for a job.  false: a call lasted longer, and the driver was given up, for the reason in
   device->given_up: nothing but what that call was given is touched any more. */
bool dpti_driver_await(dpti_device *device, uint64_t ticket, const dpti_limit *limit);
/* As dpti_driver_post, which waits for ever where the queue is full and the driver hangs. */
uint64_t dpti_driver_post_within(dpti_device *device, dpti_job *job, void *argument,
                                 const dpti_limit *limit);
/* Posts and waits. */
bool dpti_driver_call_within(dpti_device *device, dpti_job *job, void *argument,
                             const dpti_limit *limit);
/* Posts what releases something, or closes the device, and waits.  false: a call lasted longer than
   device->patience, by default ten minutes, and the driver was given up: what the job was to
   release is the device's, for ever. */
bool dpti_driver_finish(dpti_device *device, dpti_job *job, void *argument);
/* Leaves the driver to its thread, for ever: neither is touched any more. */
void dpti_driver_leave(dpti_device *device);
/* Whether the driver is there: one that was given up has a new thread if the old one has come back.
   The device stays lost. */
bool dpti_driver_revive(dpti_device *device);

/* ---- Checked dispatch ------------------------------------------------------------------------ */

/* Device memory with its size, so that bounds can be checked. */
typedef struct dpti_buffer {
    dpti_device *device;
    dpt_buffer *handle;
    size_t n_bytes;
    size_t charged_bytes; /* counted in memory_used_bytes; 0 if it wraps host memory */
} dpti_buffer;

/* [driver] Allocates within the device's memory limit.  *out is zeroed on failure. */
DPT_CHECK_RESULT dpt_status dpti_alloc(dpti_device *device, size_t n_bytes, dpti_buffer *out);
/* [driver] wrap_host where the backend has it, else alloc and upload; read-only data, which the
   caller keeps valid until the buffer is freed. */
DPT_CHECK_RESULT dpt_status dpti_alloc_data(dpti_device *device, const void *host, size_t n_bytes,
                                            dpti_buffer *out);
/* [driver] Accepts a zeroed one; zeroes it. */
void dpti_free(dpti_buffer *buffer);
/* [driver] The address if the buffer lies in host memory, else NULL. */
void *dpti_host_pointer(const dpti_buffer *buffer);
/* [driver] Host memory for transfers, aligned to 64 bytes. */
DPT_CHECK_RESULT dpt_status dpti_host_alloc(dpti_device *device, size_t n_bytes, void **out);
/* [driver] Whoever keeps the address forgets it before. */
void dpti_host_free(dpti_device *device, void *host);

/* [driver] Transfers on the main stream, bounds checked. */
DPT_CHECK_RESULT dpt_status dpti_upload(const dpti_buffer *to, size_t offset_bytes,
                                        const void *host, size_t n_bytes);
DPT_CHECK_RESULT dpt_status dpti_download(void *host, const dpti_buffer *from, size_t offset_bytes,
                                          size_t n_bytes);
DPT_CHECK_RESULT dpt_status dpti_copy(const dpti_buffer *to, size_t to_offset_bytes,
                                      const dpti_buffer *from, size_t from_offset_bytes,
                                      size_t n_bytes); /* of one device */
DPT_CHECK_RESULT dpt_status dpti_fill(const dpti_buffer *to, size_t offset_bytes, uint32_t pattern,
                                      size_t n_bytes);
DPT_CHECK_RESULT dpt_status dpti_sync(dpti_device *device);

/* [driver] Events on the main stream.  Those of a lost device are abandoned, like its memory. */
DPT_CHECK_RESULT dpt_status dpti_event_create(dpti_device *device, dpt_event **out);
void dpti_event_destroy(dpti_device *device, dpt_event **event); /* of NULL, too; leaves NULL */
DPT_CHECK_RESULT dpt_status dpti_event_record(dpti_device *device, dpt_event *event);
DPT_CHECK_RESULT dpt_status dpti_event_query(dpti_device *device, dpt_event *event, bool *done);
DPT_CHECK_RESULT dpt_status dpti_event_sync(dpti_device *device, dpt_event *event);
DPT_CHECK_RESULT dpt_status dpti_event_elapsed(dpti_device *device, dpt_event *start,
                                               dpt_event *end, double *seconds);

/* [driver] Recordings on the main stream, where the backend can. */
bool dpti_can_record(const dpti_device *device);
bool dpti_records_late(const dpti_device *device); /* DPT_DEVICE_RECORDS_LATE */
DPT_CHECK_RESULT dpt_status dpti_recording_begin(dpti_device *device);
DPT_CHECK_RESULT dpt_status dpti_recording_end(dpti_device *device, dpt_recording **out);
DPT_CHECK_RESULT dpt_status dpti_recording_replay(dpti_device *device, dpt_recording *recording);
void dpti_recording_release(dpti_device *device, dpt_recording **recording); /* likewise */

/* ---- Collectives (lane.c) -------------------------------------------------------------------- */

/* A second stream of a device, on which it exchanges beside what it computes, with points in it. */
enum { DPTI_SIDE_STREAM_POINTS = 72 };

typedef struct dpti_side_stream {
    dpti_device *device; /* NULL: there is none */
    dpt_stream *stream;
    dpt_event *points[DPTI_SIDE_STREAM_POINTS]; /* each made when it is marked first */
} dpti_side_stream;

/* [driver] On failure *out is zeroed. */
DPT_CHECK_RESULT dpt_status dpti_side_stream_create(dpti_device *device, dpti_side_stream *out);
/* [driver] Accepts a zeroed one; zeroes it.  What it did has passed, or the device is lost. */
void dpti_side_stream_destroy(dpti_side_stream *side);
/* [driver] Enqueue, as their namesakes on the main stream. */
DPT_CHECK_RESULT dpt_status dpti_side_stream_fill(dpti_side_stream *side, const dpti_buffer *to,
                                                  size_t offset_bytes, uint32_t pattern,
                                                  size_t n_bytes);
DPT_CHECK_RESULT dpt_status dpti_side_stream_download(dpti_side_stream *side, void *host,
                                                      const dpti_buffer *from, size_t offset_bytes,
                                                      size_t n_bytes);
DPT_CHECK_RESULT dpt_status dpti_side_stream_sync(dpti_side_stream *side);
/* [driver] Marks point k here; whether the lane has passed it. */
DPT_CHECK_RESULT dpt_status dpti_side_stream_mark(dpti_side_stream *side, size_t k);
DPT_CHECK_RESULT dpt_status dpti_side_stream_passed(dpti_side_stream *side, size_t k, bool *passed);

/* Whether its backend has collectives; whether these devices can use them check tells. */
bool dpti_has_collectives(const dpti_device *device);

/* Devices of this process that are to be ranks first_rank, first_rank + 1, ... of the n_ranks of a
   communicator. */
typedef struct dpti_group {
    dpti_device *const *devices;
    size_t n, first_rank, n_ranks;
} dpti_group;

/* [driver] Of the first device, in whose record a failure stands; the others' drivers make no calls
   meanwhile.  Ask, invite, make: as backend.h says of check, invite and create. */
DPT_CHECK_RESULT dpt_status dpti_communicator_check(const dpti_group *group);
DPT_CHECK_RESULT dpt_status dpti_communicator_invite(const dpti_group *group, dpt_invitation *out);
DPT_CHECK_RESULT dpt_status dpti_communicator_create(const dpti_group *group,
                                                     const dpt_invitation *invitation,
                                                     double timeout_seconds,
                                                     dpt_communicator **out);
/* [driver] Of a member, or from any thread once it was aborted; no member is in a call of it.
   Accepts NULL. */
void dpti_communicator_destroy(dpti_device *device, dpt_communicator *communicator);
/* From any thread: who waits for it, or calls it, gets an error.  Accepts NULL. */
void dpti_communicator_abort(dpti_device *device, dpt_communicator *communicator);
/* [driver] Of member i, whose lane it is, and which waits for what it has enqueued: the failure if
   that has failed by itself.  DPT_OK where the backend does not tell. */
DPT_CHECK_RESULT dpt_status dpti_side_stream_query(dpti_side_stream *side,
                                                   dpt_communicator *communicator, size_t i);
/* [driver] Enqueue the part of member i, whose lane it is, in `count` elements from `first` on. */
DPT_CHECK_RESULT dpt_status dpti_side_stream_all_reduce(dpti_side_stream *side,
                                                        dpt_communicator *communicator, size_t i,
                                                        const dpti_buffer *data, size_t first,
                                                        size_t count);
DPT_CHECK_RESULT dpt_status dpti_side_stream_broadcast(dpti_side_stream *side,
                                                       dpt_communicator *communicator, size_t i,
                                                       size_t root, const dpti_buffer *data,
                                                       size_t count);

/* ---- Operators ------------------------------------------------------------------------------- */

typedef enum dpti_slot_role { DPTI_SLOT_IN, DPTI_SLOT_OUT } dpti_slot_role;

/* One tensor of an operator, from the table in backend.h. */
typedef struct dpti_slot {
    const char *name; /* "x", "dy" */
    dpt_dtype dtype;
    size_t per_sample; /* elements a sample; 0 if the tensor has no sample axis */
    size_t fixed;      /* elements, if it has none */
    bool accumulates;  /* an output that DPT_RUN_ACCUMULATE adds to; others are written over */
} dpti_slot;

/* The tensors of an operator.  This is the one place that knows them: dispatch, the graph and the
   conformance suite ask here. */
typedef struct dpti_signature {
    size_t n_in, n_out;
    dpti_slot in[DPT_MAX_INPUTS];
    dpti_slot out[DPT_MAX_OUTPUTS];
    bool reads_step;     /* args.step must be set */
    bool may_accumulate; /* honours DPT_RUN_ACCUMULATE */
    bool may_halt;       /* honours args.halt */
    bool per_step;       /* n is 1: works on whole tensors, once a step */
} dpti_signature;

const char *dpti_op_name(dpt_op_kind kind); /* "CONV2D_FORWARD" */
/* Validates a description (extents, the output size of a convolution, overflow) and tells its
   tensors.  DPT_E_INVALID with the reason.  `error` may be NULL. */
DPT_CHECK_RESULT dpt_status dpti_op_signature(const dpt_op_desc *desc, dpti_signature *out,
                                              dpt_error *error);

/* A prepared operator. */
typedef struct dpti_op {
    dpti_device *device;
    dpt_op *handle;
    dpt_op_desc desc;
    dpti_signature signature;
    dpt_op_info info;
    size_t max_samples;
} dpti_op;

/* [driver] */
DPT_CHECK_RESULT dpt_status dpti_prepare(dpti_device *device, const dpt_op_desc *desc,
                                         size_t max_samples, dpti_op *out);
/* [driver] The same with an algorithm to take (dpt_op_request).  DPT_E_UNSUPPORTED if the device
   does it otherwise only, whatever the backend says. */
DPT_CHECK_RESULT dpt_status dpti_prepare_as(dpti_device *device, const dpt_op_request *request,
                                            dpti_op *out);
void dpti_release(dpti_op *op); /* [driver] accepts a zeroed one; zeroes it */

/* Whether one device can use the other's buffers: the same device, or the same backend and memory
   domain. */
bool dpti_shares_memory(const dpti_device *a, const dpti_device *b);
/* Whether it is of this backend and in this memory domain. */
bool dpti_sees_memory(const dpti_device *device, const dpt_backend *backend, const char *domain);

/* A tensor's place, for binding. */
typedef struct dpti_place {
    const dpti_buffer *buffer; /* NULL: slot not used */
    size_t offset_bytes;
} dpti_place;

typedef struct dpti_binding {
    dpti_place in[DPT_MAX_INPUTS];
    dpti_place out[DPT_MAX_OUTPUTS];
    dpti_place workspace, step;
    dpti_place halt; /* or {NULL, 0} */
    uint32_t flags;
} dpti_binding;

/* Checks once that every slot that the signature names is bound, aligned, and large enough for
   n_samples, and makes the arguments of run from it.  DPT_E_INTERNAL names the slot, in the
   device's record: so from the driver, or while the device is idle. */
DPT_CHECK_RESULT dpt_status dpti_bind(const dpti_op *op, size_t n_samples,
                                      const dpti_binding *binding, dpt_op_args *out);
/* [driver] Enqueues on the main stream; n_samples at most what was bound. */
DPT_CHECK_RESULT dpt_status dpti_run(const dpti_op *op, size_t n_samples, const dpt_op_args *args);

#endif
