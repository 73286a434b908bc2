/* The order of an island's calls, and waiting for them. */
#include "collective/island.h"
#include "device/buffer.h"
#include "device/communicator.h"
#include "device/side_stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The point of the side stream that a wait marks; the points before it belong to parts. */
enum { LAST_POINT = DPTI_SIDE_STREAM_POINTS - 1 };

/* What all members do equally often. */
typedef enum coming { CALL, MEETING, COMINGS } coming;

typedef struct member {
    size_t n[COMINGS]; /* guarded by the mutex; calls of collectives, and meetings */
    size_t n_waited;   /* by its own driver: calls that it has waited for */
} member;

struct dpti_island {
    dpti_group group;
    bool blames_devices;
    dpti_device **devices; /* the group's */
    dpt_communicator *communicator;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Guarded by the mutex. */
    bool aborted;
    dpt_error failure;
    bool is_nobodys;      /* of none that has heard of it yet */
    size_t n_asking;      /* members that wait for what all have called for */
    bool moved;           /* something has begun or ended since the last look */
    double stuck_seconds; /* how long nothing has */
    member members[];
};

dpti_island *dpti_island_create(const dpti_island_options *options)
{
    const size_t n = options->group.n;
    dpti_island *island = calloc(1, sizeof *island + n * sizeof *island->members);
    if (!island) return NULL;
    island->devices = calloc(n, sizeof *island->devices);
    if (!island->devices) {
        free(island);
        return NULL;
    }
    memcpy(island->devices, options->group.devices, n * sizeof *island->devices);
    island->group = options->group;
    island->group.devices = island->devices;
    island->blames_devices = options->blames_devices;
    pthread_mutex_init(&island->mutex, NULL);
    pthread_cond_init(&island->changed, NULL);
    return island;
}

void dpti_island_destroy(dpti_island *island)
{
    if (!island) return;
    pthread_cond_destroy(&island->changed);
    pthread_mutex_destroy(&island->mutex);
    free(island->devices);
    free(island);
}

dpt_status dpti_island_check(const dpti_island *island)
{
    return dpti_communicator_check(&island->group);
}

dpt_status dpti_island_invite(const dpti_island *island, dpt_invitation *out)
{
    return dpti_communicator_invite(&island->group, out);
}

dpt_status dpti_island_open(dpti_island *island, const dpt_invitation *invitation,
                            double timeout_seconds)
{
    return dpti_communicator_create(&island->group, invitation, timeout_seconds,
                                    &island->communicator);
}

void dpti_island_close(dpti_island *island, dpti_device *device)
{
    dpti_communicator_destroy(device, island->communicator);
    island->communicator = NULL;
}

size_t dpti_island_size(const dpti_island *island)
{
    return island->group.n;
}

const dpti_group *dpti_island_group(const dpti_island *island)
{
    return &island->group;
}

bool dpti_island_is_wide(const dpti_island *island)
{
    return island->group.n_ranks > island->group.n;
}

dpti_device *dpti_island_device(const dpti_island *island, size_t place)
{
    return island->devices[place];
}

/* ---- Its end --------------------------------------------------------------------------------- */

bool dpti_island_is_sound(dpti_island *island)
{
    pthread_mutex_lock(&island->mutex);
    const bool sound = !island->aborted;
    pthread_mutex_unlock(&island->mutex);
    return sound;
}

dpt_error dpti_island_failure(dpti_island *island)
{
    pthread_mutex_lock(&island->mutex);
    const dpt_error failure = island->failure;
    pthread_mutex_unlock(&island->mutex);
    return failure;
}

/* Aborts the island.  The first caller sets the reason; NULL: the reason is no failure of the
   island. Returns whether this caller was the first. */
static bool end(dpti_island *island, const dpt_error *failure, bool is_nobodys)
{
    pthread_mutex_lock(&island->mutex);
    const bool first = !island->aborted;
    island->aborted = true;
    if (first && failure) island->failure = *failure;
    if (first) island->is_nobodys = is_nobodys;
    pthread_cond_broadcast(&island->changed);
    pthread_mutex_unlock(&island->mutex);
    if (first) dpti_communicator_abort(island->devices[0], island->communicator);
    return first;
}

void dpti_island_abort(dpti_island *island)
{
    (void)end(island, NULL, false);
}

void dpti_island_watch(dpti_island *island, double seconds, double limit)
{
    dpt_error error = {.status = DPT_E_DEVICE};
    pthread_mutex_lock(&island->mutex);
    const bool stands = island->n_asking > 0 && !island->moved && !island->aborted;
    island->stuck_seconds = stands ? island->stuck_seconds + seconds : 0;
    island->moved = false;
    const bool stuck = island->stuck_seconds >= limit;
    pthread_mutex_unlock(&island->mutex);
    if (!stuck) return;
    (void)DPT_FAIL(&error, DPT_E_DEVICE, "a sum that all called for did not end within %.3g s",
                   limit);
    (void)end(island, &error, true);
}

/* Takes the result of a call that is not a collective.  A failure belongs to the device, which then
   cannot keep up, so the island is aborted. */
static dpt_status own_call(const dpti_island_slot *island_slot, dpt_status status)
{
    if (status != DPT_OK) dpti_island_abort(island_slot->island);
    return status;
}

/* Takes the result of a collective.  A failure that follows from an abort does not belong to this
   device. */
static dpt_status collective_call(const dpti_island_slot *island_slot, dpt_status status)
{
    dpti_island *island = island_slot->island;
    if (status == DPT_OK) return DPT_OK;
    if (status == DPT_E_DEVICE_LOST) return own_call(island_slot, status);
    const bool first = end(island, dpti_device_error(island_slot->side->device), false);
    return first && island->blames_devices ? status : DPT_E_CANCELLED;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static void count_call(const dpti_island_slot *island_slot)
{
    dpti_island *island = island_slot->island;
    pthread_mutex_lock(&island->mutex);
    island->members[island_slot->place].n[CALL]++;
    island->moved = true;
    pthread_cond_broadcast(&island->changed);
    pthread_mutex_unlock(&island->mutex);
}

static dpti_communicator_member member_of(const dpti_island_slot *island_slot)
{
    return (dpti_communicator_member){.communicator = island_slot->island->communicator,
                                      .index = island_slot->place,
                                      .side = island_slot->side};
}

dpt_status dpti_island_reduce(const dpti_island_slot *island_slot, const dpti_island_part *part)
{
    dpti_side_stream *side = island_slot->side;
    const dpti_communicator_member self = member_of(island_slot);
    const dpti_slice slice = {.buffer = part->data,
                              .offset_bytes = part->begin * sizeof(float),
                              .n_bytes = (part->end - part->begin) * sizeof(float)};
    if (!dpti_island_is_sound(island_slot->island)) return DPT_E_CANCELLED;
    if (slice.n_bytes > 0) {
        if (part->empty) DPT_TRY(own_call(island_slot, dpti_side_stream_fill(side, &slice, 0)));
        DPT_TRY(collective_call(island_slot, dpti_communicator_all_reduce(&self, &slice)));
        count_call(island_slot);
    }
    if (!part->host) return DPT_OK;
    if (dpti_host_pointer(part->data) == NULL)
        DPT_TRY(own_call(island_slot,
                         dpti_side_stream_download(side, part->host + part->begin, &slice)));
    return own_call(island_slot, dpti_side_stream_mark(side, part->point));
}

dpt_status dpti_island_arrived(const dpti_island_slot *island_slot, size_t point, bool *out)
{
    if (!dpti_island_is_sound(island_slot->island)) return DPT_E_CANCELLED;
    DPT_TRY(own_call(island_slot, dpti_side_stream_passed(island_slot->side, point, out)));
    /* A point that is passed because of an abort says nothing about the sums before it. */
    return dpti_island_is_sound(island_slot->island) ? DPT_OK : DPT_E_CANCELLED;
}

dpt_status dpti_island_hand_out(const dpti_island_slot *island_slot, const dpti_buffer *data,
                                size_t count)
{
    const dpti_communicator_member self = member_of(island_slot);
    const dpti_slice slice = {.buffer = data, .n_bytes = count * sizeof(float)};
    if (!dpti_island_is_sound(island_slot->island)) return DPT_E_CANCELLED;
    DPT_TRY(collective_call(island_slot, dpti_communicator_broadcast(&self, 0, &slice)));
    count_call(island_slot);
    return DPT_OK;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static bool have_come(const dpti_island *island, coming what, size_t n)
{
    for (size_t i = 0; i < island->group.n; i++)
        if (island->members[i].n[what] < n) return false;
    return true;
}

/* Called with the mutex locked.  Waits until all members have come n times, or the island is
 * aborted. */
static void await_all(dpti_island *island, coming what, size_t n)
{
    while (!island->aborted && !have_come(island, what, n))
        pthread_cond_wait(&island->changed, &island->mutex);
}

void dpti_island_meet(const dpti_island_slot *island_slot, dpti_stopwatch *stopwatch)
{
    dpti_island *island = island_slot->island;
    dpti_stopwatch_lap(stopwatch, DPTI_SPAN_EXCHANGE);
    pthread_mutex_lock(&island->mutex);
    const size_t n = ++island->members[island_slot->place].n[MEETING];
    pthread_cond_broadcast(&island->changed);
    await_all(island, MEETING, n);
    pthread_mutex_unlock(&island->mutex);
    dpti_stopwatch_lap(stopwatch, DPTI_SPAN_WAITING);
}

/* Waits until all members have made their n-th call, or the island is aborted.  From then on this
   member polls. */
static void await_calls(dpti_island *island, size_t n)
{
    pthread_mutex_lock(&island->mutex);
    await_all(island, CALL, n);
    island->n_asking++;
    island->moved = true;
    pthread_mutex_unlock(&island->mutex);
}

static void end_asking(dpti_island *island)
{
    pthread_mutex_lock(&island->mutex);
    island->n_asking--;
    island->moved = true;
    pthread_mutex_unlock(&island->mutex);
}

/* Asks whether enqueued work has failed by itself. */
static dpt_status query(const dpti_island_slot *island_slot)
{
    if (!dpti_island_is_sound(island_slot->island)) return DPT_E_CANCELLED;
    const dpti_communicator_member self = member_of(island_slot);
    return collective_call(island_slot, dpti_communicator_query(&self));
}

/* Polls in short calls, so that a driver thread that hangs can be told from those that wait for it.
   If the wait lasts longer than most sums, the communicator is asked, too. */
static dpt_status ask(const dpti_island_slot *island_slot)
{
    const long longest = 500000;
    struct timespec nap = {.tv_nsec = 5000};
    bool passed = false;
    for (;;) {
        DPT_TRY(dpti_island_arrived(island_slot, LAST_POINT, &passed));
        if (passed) return DPT_OK;
        if (nap.tv_nsec >= longest) DPT_TRY(query(island_slot));
        (void)nanosleep(&nap, NULL);
        if (nap.tv_nsec < longest) nap.tv_nsec += nap.tv_nsec / 4;
    }
}

/* If failures belong to devices, a failure that no device has taken yet becomes this device's. */
static dpt_status hear(const dpti_island_slot *island_slot, dpt_status status)
{
    dpti_island *island = island_slot->island;
    if (status != DPT_E_CANCELLED || !island->blames_devices) return status;
    pthread_mutex_lock(&island->mutex);
    if (island->is_nobodys) {
        island_slot->side->device->base.error = island->failure;
        status = island->failure.status;
    }
    island->is_nobodys = false;
    pthread_mutex_unlock(&island->mutex);
    return status;
}

/* After an abort: waits until nothing that was enqueued before writes any more. */
static dpt_status settle(const dpti_island_slot *island_slot, dpt_status status)
{
    dpti_device *device = island_slot->side->device;
    const dpt_error first = device->base.error;
    if (device->lost) return status;
    const dpt_status synced = dpti_side_stream_sync(island_slot->side);
    if (synced == DPT_OK || status != DPT_E_CANCELLED) device->base.error = first;
    return synced != DPT_OK && status == DPT_E_CANCELLED ? synced : status;
}

dpt_status dpti_island_wait(const dpti_island_slot *island_slot, dpti_stopwatch *stopwatch)
{
    dpti_island *island = island_slot->island;
    member *m = &island->members[island_slot->place];
    dpt_status status = DPT_E_CANCELLED;
    const size_t n = m->n[CALL]; /* which this thread alone changes */
    if (n == m->n_waited && dpti_island_is_sound(island)) return DPT_OK;
    m->n_waited = n;
    dpti_stopwatch_lap(stopwatch, DPTI_SPAN_EXCHANGE);
    if (dpti_island_is_sound(island))
        status = own_call(island_slot, dpti_side_stream_mark(island_slot->side, LAST_POINT));
    await_calls(island, n);
    dpti_stopwatch_lap(stopwatch, DPTI_SPAN_WAITING);
    if (status == DPT_OK) status = ask(island_slot);
    end_asking(island);
    if (status != DPT_OK) status = settle(island_slot, hear(island_slot, status));
    dpti_stopwatch_lap(stopwatch, DPTI_SPAN_EXCHANGE);
    return status;
}
