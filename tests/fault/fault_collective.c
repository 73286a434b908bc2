/* Collectives of the fault backend.  Devices with the same island= are summed in the order of
   ranks, after the last of them has called; a stream waits until then.  Ranks in other processes
   announce their calls by mail (fault_mail.h), which is read when somebody waits.  A violation of
   the rules of backend/abi.h is reported as `order WHAT`, and fails. */
#include "fault.h"
#include "fault_mail.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_MEMBERS = 8, UNDER_WAY = 256 };

typedef enum call_kind { ALL_REDUCE, BROADCAST } call_kind;

typedef struct call {
    float *data;
    uint64_t hash; /* of the data, which nobody changes from then on */
} call;

/* What all members call for together. */
typedef struct collective {
    call_kind kind;
    size_t count, root, n_here;
    call calls[MOST_MEMBERS];
} collective;

typedef struct member {
    dpt_device *device;
    size_t n_called;
    pthread_t thread; /* of the first call */
} member;

struct dpt_communicator {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t n, first_rank, n_ranks, stick, n_done;
    fault_mail *mail; /* NULL: all ranks are here */
    fault_bug bug;
    size_t bugged; /* the member that has it */
    bool aborted;
    member members[MOST_MEMBERS];
    collective under_way[UNDER_WAY];
};

static float *address(dpt_device *device, dpt_location at)
{
    fault_state *state = fault_of(device);
    char *base = state->inner.backend->memory->host_pointer(&state->inner, at.buffer);
    return (float *)(void *)(base + at.offset_bytes);
}

static uint64_t hash_of(const float *data, size_t count)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, &data[i], sizeof word);
        hash = (hash ^ word) * 1099511628211u;
    }
    return hash;
}

/* ---- Making ---------------------------------------------------------------------------------- */

static dpt_status check(const dpt_group *group)
{
    dpt_device *first = group->devices[0];
    const fault_state *state = fault_of(first);
    if (state->island == 0) return DPT_FAIL(&first->error, DPT_E_UNSUPPORTED, "it has no island=");
    DPT_TRY(fault_enter(first, "check"));
    if (group->n_ranks > group->n_devices && state->narrow > 0)
        return DPT_FAIL(&first->error, DPT_E_UNSUPPORTED, "it is in one process");
    if (group->n_devices > MOST_MEMBERS || group->n_ranks > FAULT_MOST_RANKS)
        return DPT_FAIL(&first->error, DPT_E_UNSUPPORTED, "they are too many");
    for (size_t i = 0; i < group->n_devices; i++)
        if (fault_of(group->devices[i])->island != state->island)
            return DPT_FAIL(&first->error, DPT_E_UNSUPPORTED, "they have not the same island=");
    return DPT_OK;
}

static dpt_status invite(dpt_device *device, dpt_invitation *out)
{
    DPT_TRY(fault_enter(device, "invite"));
    memset(out, 7, sizeof *out);
    fault_mail_name((char *)out->bytes + 1);
    return DPT_OK;
}

/* What the devices ask for. */
static void take_plans(dpt_communicator *c, const dpt_group *group)
{
    for (size_t i = 0; i < c->n; i++) {
        const fault_state *state = fault_of(group->devices[i]);
        c->members[i].device = group->devices[i];
        if (state->stick > 0) c->stick = state->stick;
        if (state->bug != FAULT_BUG_NONE) c->bugged = i;
        if (state->bug != FAULT_BUG_NONE) c->bug = state->bug;
    }
}

static dpt_status create(const dpt_group *group, dpt_communicator **out)
{
    dpt_device *first = group->devices[0];
    DPT_TRY(fault_enter(first, "create"));
    if (group->invitation.bytes[0] != 7)
        return DPT_FAIL(&first->error, DPT_E_DEVICE, "there is no invitation");
    dpt_communicator *c = calloc(1, sizeof *c);
    if (!c) return DPT_FAIL(&first->error, DPT_E_NO_MEMORY, "no memory for a communicator");
    c->n = group->n_devices;
    c->first_rank = group->first_rank;
    c->n_ranks = group->n_ranks;
    if (c->n_ranks > c->n) {
        const char *name = (const char *)group->invitation.bytes + 1;
        const dpt_status status =
            fault_mail_open(group, name, fault_of(first)->island, &c->mail, &first->error);
        if (status != DPT_OK) free(c);
        DPT_TRY(status);
    }
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->changed, NULL);
    take_plans(c, group);
    fault_report("joined %zu\n", c->n);
    *out = c;
    return DPT_OK;
}

static void destroy(dpt_communicator *communicator)
{
    dpt_communicator *c = communicator;
    if (!c) return;
    if (!c->aborted) fault_let_go(c->members[0].device, "destroy");
    for (size_t i = 0; i < c->n && !c->aborted; i++)
        if (c->members[i].n_called > c->n_done) fault_report("order destroyed under way\n");
    fault_report("parted %zu\n", c->n);
    fault_mail_close(c->mail);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->mutex);
    free(c);
}

static void abort_all(dpt_communicator *communicator)
{
    pthread_mutex_lock(&communicator->mutex);
    communicator->aborted = true;
    pthread_cond_broadcast(&communicator->changed);
    pthread_mutex_unlock(&communicator->mutex);
}

/* ---- Calls: under the mutex ------------------------------------------------------------------ */

static dpt_status break_rule(dpt_communicator *c, dpt_device *device, const char *what)
{
    fault_report("order %s\n", what);
    c->aborted = true;
    pthread_cond_broadcast(&c->changed);
    return DPT_FAIL(&device->error, DPT_E_INTERNAL, "against the rules: %s", what);
}

static void falsify(const dpt_communicator *c, const collective *what)
{
    if (what->kind != ALL_REDUCE || what->count < 2) return;
    for (size_t i = 0; i < c->n; i++) {
        uint32_t words[2];
        memcpy(words, what->calls[i].data, sizeof words);
        if (c->bug == FAULT_BUG_SUM) what->calls[i].data[0] += 1;
        if (c->bug == FAULT_BUG_APART && i == c->bugged) words[1] ^= 1;
        if (c->bug == FAULT_BUG_SHAKY && c->n_done % 2 == 1) words[1] ^= 1;
        memcpy(&what->calls[i].data[1], &words[1], sizeof words[1]);
    }
}

static void finish(dpt_communicator *c, const collective *what)
{
    for (size_t e = 0; e < what->count; e++) {
        float sum = what->calls[what->kind == BROADCAST ? what->root : 0].data[e];
        for (size_t i = 1; i < c->n && what->kind == ALL_REDUCE; i++)
            sum += what->calls[i].data[e];
        for (size_t i = 0; i < c->n; i++)
            what->calls[i].data[e] = sum;
    }
    falsify(c, what);
}

/* The same, where the data of all ranks are in the mail; into `sum`.  NULL, or the rule that is
   broken. */
static const char *finish_by_mail(dpt_communicator *c, const collective *what, float *sum,
                                  float *read)
{
    for (size_t r = 0; r < c->n_ranks; r++) {
        fault_letter letter;
        if (!fault_mail_read(c->mail, r, &letter, read, what->count) ||
            letter.count != what->count || letter.kind != what->kind || letter.root != what->root)
            return "another call in another process";
        for (size_t e = 0; e < what->count && what->kind == ALL_REDUCE; e++)
            sum[e] = r == 0 ? read[e] : sum[e] + read[e];
        if (what->kind == BROADCAST && r == what->root)
            memcpy(sum, read, what->count * sizeof *sum);
    }
    for (size_t i = 0; i < c->n; i++)
        memcpy(what->calls[i].data, sum, what->count * sizeof *sum);
    falsify(c, what);
    return NULL;
}

/* The next one, which all members here have called for: NULL, or the rule that is broken. */
static const char *end_next(dpt_communicator *c, collective *what)
{
    const char *broken = NULL;
    for (size_t k = 0; k < c->n; k++)
        if (hash_of(what->calls[k].data, what->count) != what->calls[k].hash)
            return "data changed under way";
    if (c->mail) {
        float *room = malloc(2 * what->count * sizeof *room);
        broken = room ? finish_by_mail(c, what, room, room + what->count) : "no memory";
        free(room);
    } else {
        finish(c, what);
    }
    what->n_here = 0;
    c->n_done++;
    pthread_cond_broadcast(&c->changed);
    return broken;
}

/* Ends what can end. */
static const char *go_on(dpt_communicator *c)
{
    const char *broken = NULL;
    while (!broken && !c->aborted && (c->stick == 0 || c->n_done + 1 < c->stick)) {
        collective *next = &c->under_way[c->n_done % UNDER_WAY];
        if (next->n_here < c->n || (c->mail && !fault_mail_has_come(c->mail))) break;
        broken = end_next(c, next);
    }
    return broken;
}

static dpt_status join(dpt_communicator *c, size_t i, const collective *wanted, float *data)
{
    member *m = &c->members[i];
    dpt_device *device = m->device;
    const pthread_t self = pthread_self();
    if (c->aborted) return DPT_FAIL(&device->error, DPT_E_CANCELLED, "it was aborted");
    if (m->n_called == 0) m->thread = self;
    if (!pthread_equal(m->thread, self)) return break_rule(c, device, "another thread");
    if (m->n_called - c->n_done == UNDER_WAY) return break_rule(c, device, "too many at once");
    collective *what = &c->under_way[m->n_called++ % UNDER_WAY];
    if (what->n_here == 0) *what = *wanted;
    if (what->kind != wanted->kind) return break_rule(c, device, "another call");
    if (what->count != wanted->count || what->root != wanted->root)
        return break_rule(c, device, "other arguments");
    what->calls[i] = (call){.data = data, .hash = hash_of(data, wanted->count)};
    what->n_here++;
    const fault_letter letter = {wanted->kind, wanted->count, wanted->root};
    if (c->mail && !fault_mail_send(c->mail, c->first_rank + i, &letter, data))
        return DPT_FAIL(&device->error, DPT_E_DEVICE, "cannot send to other processes");
    const char *broken = go_on(c);
    return broken ? break_rule(c, device, broken) : DPT_OK;
}

static dpt_status enqueue(dpt_communicator *c, size_t i, dpt_stream *stream, dpt_location at,
                          const collective *wanted)
{
    if (stream->device != c->members[i].device || wanted->count == 0)
        return DPT_FAIL(&stream->device->error, DPT_E_INTERNAL, "not its stream, or nothing to do");
    pthread_mutex_lock(&c->mutex);
    const dpt_status status = join(c, i, wanted, address(stream->device, at));
    pthread_mutex_unlock(&c->mutex);
    DPT_TRY(status);
    stream->waits = (fault_wait){.communicator = c, .n = c->members[i].n_called};
    return DPT_OK;
}

static dpt_status all_reduce(dpt_communicator *communicator, size_t i, dpt_stream *stream,
                             dpt_location data, size_t count)
{
    DPT_TRY(fault_enter(stream->device, "all_reduce"));
    const collective wanted = {.kind = ALL_REDUCE, .count = count};
    return enqueue(communicator, i, stream, data, &wanted);
}

static dpt_status broadcast(dpt_communicator *communicator, size_t i, size_t root_rank,
                            dpt_stream *stream, dpt_location data, size_t count)
{
    DPT_TRY(fault_enter(stream->device, "broadcast"));
    const collective wanted = {.kind = BROADCAST, .count = count, .root = root_rank};
    return enqueue(communicator, i, stream, data, &wanted);
}

/* ---- Streams that are behind one ------------------------------------------------------------- */

/* Under the mutex.  A broken rule has been reported, and nothing is waited for. */
static bool is_over(dpt_communicator *c, size_t n)
{
    const char *broken = go_on(c);
    if (broken) (void)break_rule(c, c->members[0].device, broken);
    return c->aborted || c->n_done >= n;
}

bool fault_passed(const fault_wait *wait)
{
    dpt_communicator *c = wait->communicator;
    if (!c) return true;
    pthread_mutex_lock(&c->mutex);
    const bool passed = is_over(c, wait->n);
    pthread_mutex_unlock(&c->mutex);
    return passed;
}

/* No mail wakes anybody. */
void fault_await(const fault_wait *wait)
{
    while (!fault_passed(wait))
        (void)nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

const dpt_collective_ops fault_collective_ops = {
    .check = check,
    .invite = invite,
    .create = create,
    .destroy = destroy,
    .all_reduce = all_reduce,
    .broadcast = broadcast,
    .abort = abort_all,
};
