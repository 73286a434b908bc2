/* What processes decide together: that messages have failed, whether settle has succeeded, and who
   is left.

   *Failures.*  The first process that notices one sends TCP_REVOKE to all, and everyone who gets it
   passes it on once.

   *Settle* without a failure: all tell the process of the lowest place, which tells all.

   *After a failure* the living process of the lowest place decides: the coordinator.  Each process
   that waits in settle or mend sends it a TCP_STATE, once more when the coordinator has died or the
   sender has seen another death.  The coordinator waits for the states of all that live.

   - If any waits in settle, that settle has succeeded if any process knows so.  Everyone of them is
     told (TCP_OUTCOME).
   - If all wait in mend, the coordinator chooses who is left and tells them (TCP_MENDED).

   A coordinator may die when it has told some only.  Decisions hold all the same: the state of one
   who has been told shows the decision to the next coordinator, which waits for that state because
   the process lives.  A process takes decisions only from the coordinator that has its state, so an
   older decision cannot come after a newer one.

   *Who is left.*  Those that hear each other: of two that do not, the one of the lower place.

   *Who may go on.*  A process whose connection was closed by its kernel has died.  A silent one may
   go on at the other side of a network that is cut, and stays silent if its connection ends later.
   Those left go on only if they are more than half of all that may live, or exactly half with the
   lowest place among them.  At most one side can be. */
#include "job.h"

#include <stdarg.h>
#include <string.h>

/* ---- Failures -------------------------------------------------------------------------------- */

static void end_wait(tcp_job *job, dpt_status outcome)
{
    if (job->wait == TCP_NOTHING || job->over) return;
    job->over = true;
    job->outcome = outcome;
    pthread_cond_broadcast(&job->changed);
}

void dpt_tcp_revoke(tcp_job *job, const char *format, ...)
{
    va_list arguments;
    if (atomic_load(&job->revoked)) return;
    va_start(arguments, format);
    vsnprintf(job->reason, sizeof job->reason, format, arguments);
    va_end(arguments);
    atomic_store(&job->revoked, true);
    dpt_tcp_send_all(job, TCP_REVOKE);
    dpt_tcp_wake(job);
}

/* The job goes on without this process. */
static void end_part(tcp_job *job)
{
    job->left_behind = true;
    atomic_store(&job->revoked, true);
    end_wait(job, DPT_E_IO);
}

static void leave_behind(tcp_job *job)
{
    if (job->left_behind) return;
    if (job->comes)
        snprintf(job->reason, sizeof job->reason,
                 "the job has let this process go before it took part, because this process was "
                 "late or not all others heard it: let it join again");
    else
        snprintf(
            job->reason, sizeof job->reason,
            "the other processes have gone on without this one, which did not answer for longer "
            "than %g s",
            job->timeout);
    end_part(job);
}

static void end_for_want_of_others(tcp_job *job)
{
    size_t n = 0, n_left = 0;
    for (size_t p = 0; p < job->n; p++) {
        const bool member = dpt_tcp_has(&job->in_job, p);
        n_left += member && dpt_tcp_lives(job, p);
        n += member && (p == job->place || job->peers[p].fate != TCP_CLOSED);
    }
    snprintf(job->reason, sizeof job->reason,
             "%zu of %zu processes hear each other, which is too few: the others may go on; "
             "--resume continues from the last checkpoint if they do not",
             n_left, n);
    end_wait(job, DPT_E_IO);
}

dpt_status dpt_tcp_tell(tcp_job *job, dpt_error *error)
{
    pthread_mutex_lock(&job->mutex);
    const dpt_status status = DPT_FAIL(error, DPT_E_IO, "%s", job->reason);
    pthread_mutex_unlock(&job->mutex);
    return status;
}

/* ---- A new generation ------------------------------------------------------------------------ */

/* The processes that are left are known.  The others are told that they are left behind.  Their
   connections stay open: whoever reads the end of one without that frame would take this process
   for dead. */
static void renew(tcp_job *job, const tcp_set *members, uint32_t generation)
{
    dpt_tcp_guest_refuse(job, members);
    for (size_t p = 0; p < job->n; p++) {
        tcp_peer *peer = &job->peers[p];
        peer->has_state =
            peer->has_state && (p == job->guest || peer->state.generation >= generation);
        peer->count = 0;
        if (dpt_tcp_has(members, p) && !dpt_tcp_has(&job->in_job, p)) dpt_tcp_guest_take_in(job, p);
        if (!dpt_tcp_has(&job->in_job, p) || dpt_tcp_has(members, p)) continue;
        dpt_tcp_send(job, p, TCP_LEFT);
        peer->left = true;
    }
    job->in_job = *members;
    job->comes = false;
    job->generation = generation;
    job->count = job->settled = 0;
    atomic_store(&job->revoked, false);
    if (job->revoked_generation >= generation)
        dpt_tcp_revoke(job, "another process has reported a failure");
    for (size_t p = 0; p < job->n; p++)
        if (dpt_tcp_has(members, p) && !dpt_tcp_lives(job, p))
            dpt_tcp_revoke(job, "process %zu of those that joined has ended too", p);
    end_wait(job, DPT_OK);
}

/* ---- The coordinator ------------------------------------------------------------------------- */

static size_t find_coordinator(const tcp_job *job)
{
    size_t p = 0;
    while (!dpt_tcp_lives(job, p))
        p++;
    return p;
}

/* Whether two processes have a connection that both of them believe in. */
static bool hear_each_other(const tcp_job *job, size_t a, size_t b)
{
    const size_t pair[2] = {a, b};
    for (size_t i = 0; i < 2; i++) {
        const size_t one = pair[i], other = pair[1 - i];
        const tcp_frame *state = &job->peers[one].state;
        if (one == job->place && !dpt_tcp_lives(job, other)) return false;
        if (one != job->place &&
            (dpt_tcp_has(&state->silent, other) || dpt_tcp_has(&state->closed, other)))
            return false;
    }
    return true;
}

/* *left becomes those that go on; returns how many. */
static size_t choose_left(const tcp_job *job, tcp_set *left)
{
    size_t n = 0;
    *left = (tcp_set){{0}};
    for (size_t p = 0; p < job->n; p++) {
        bool heard = dpt_tcp_lives(job, p);
        for (size_t q = 0; q < p && heard; q++)
            heard = !dpt_tcp_has(left, q) || hear_each_other(job, q, p);
        if (!heard) continue;
        dpt_tcp_add(left, p);
        n++;
    }
    return n;
}

/* Whether process p has died for sure: one of those that are left has seen its end. */
static bool has_died(const tcp_job *job, const tcp_set *left, size_t p)
{
    if (dpt_tcp_has(left, p)) return false;
    if (job->peers[p].fate == TCP_CLOSED) return true;
    for (size_t q = 0; q < job->n; q++)
        if (q != job->place && dpt_tcp_has(left, q) && dpt_tcp_has(&job->peers[q].state.closed, p))
            return true;
    return false;
}

static bool may_go_on(const tcp_job *job, const tcp_set *left, size_t n_left)
{
    size_t n = 0, lowest = job->n;
    for (size_t p = 0; p < job->n; p++) {
        if (!dpt_tcp_has(&job->in_job, p) || has_died(job, left, p)) continue;
        if (n++ == 0) lowest = p;
    }
    return 2 * n_left > n || (2 * n_left == n && dpt_tcp_has(left, lowest));
}

static size_t count_members(const tcp_job *job)
{
    size_t n = 0;
    for (size_t p = 0; p < job->n; p++)
        n += dpt_tcp_has(&job->in_job, p);
    return n;
}

static void decide_who_is_left(tcp_job *job)
{
    tcp_set left;
    const size_t n_left = choose_left(job, &left), n = count_members(job);
    if (n_left == n && !dpt_tcp_guest_admitted(job)) {
        dpt_tcp_send_all(job, TCP_WHOLE);
        end_wait(job, DPT_E_IO);
    } else if (!may_go_on(job, &left, n_left)) {
        dpt_tcp_send_all(job, TCP_TOO_FEW);
        end_for_want_of_others(job);
    } else {
        const uint32_t next = dpt_tcp_guest_let_in(job, &left);
        renew(job, &left, next);
        dpt_tcp_send_all(job, TCP_MENDED);
    }
}

static void decide_settle(tcp_job *job)
{
    for (size_t p = 0; p < job->n; p++) {
        const tcp_frame *state = &job->peers[p].state;
        if (p == job->place || !dpt_tcp_lives(job, p)) continue;
        if (state->settled > job->settled) job->settled = state->settled;
    }
    dpt_tcp_send_all(job, TCP_OUTCOME);
    /* Whoever waited in settle sends another state when it waits again. */
    for (size_t p = 0; p < job->n; p++)
        if (job->peers[p].state.in_settle) job->peers[p].has_state = false;
    if (job->wait == TCP_IN_SETTLE) end_wait(job, job->count <= job->settled ? DPT_OK : DPT_E_IO);
}

/* Decides if the states of all that live are here. */
static void coordinate(tcp_job *job)
{
    bool in_settle = job->wait == TCP_IN_SETTLE;
    for (size_t p = 0; p < job->n; p++) {
        const tcp_peer *peer = &job->peers[p];
        if (p == job->place || !dpt_tcp_lives(job, p)) continue;
        if (!peer->has_state) return;
        if (peer->state.generation > job->generation) {
            /* An earlier coordinator has told this process. */
            const tcp_frame known = peer->state;
            renew(job, &known.members, known.generation);
            dpt_tcp_send_all(job, TCP_MENDED);
            return;
        }
        in_settle = in_settle || peer->state.in_settle;
    }
    if (in_settle)
        decide_settle(job);
    else
        decide_who_is_left(job);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* No failure: settle is over when all have called it.  A process that has called it may end before
   this one hears that it is over. */
static void look_at_settle(tcp_job *job)
{
    for (size_t p = 0; p < job->n; p++) {
        const tcp_peer *peer = &job->peers[p];
        if (p == job->place || !dpt_tcp_has(&job->in_job, p)) continue;
        if (!dpt_tcp_lives(job, p) || (peer->bye && peer->count < job->count)) {
            dpt_tcp_revoke(job, "process %zu of those that joined has ended", p);
            return;
        }
    }
    if (find_coordinator(job) != job->place) return;
    for (size_t p = 0; p < job->n; p++)
        if (p != job->place && dpt_tcp_lives(job, p) && job->peers[p].count < job->count) return;
    job->settled = job->count;
    dpt_tcp_send_all(job, TCP_SETTLED);
    end_wait(job, DPT_OK);
}

static void look_at_close(tcp_job *job)
{
    bool all = true;
    for (size_t p = 0; p < job->n; p++)
        all = all && (p == job->place || !dpt_tcp_lives(job, p) || job->peers[p].bye);
    if (all || atomic_load(&job->revoked)) end_wait(job, DPT_OK);
}

/* Whether the data connection to a process that lives has ended, and its control connection has
   not, or not yet.  The service thread soon says that the process has died or is silent.  Before
   that, the others would be told that nobody is missing. */
static bool is_to_see(const tcp_job *job)
{
    for (size_t p = 0; p < job->n; p++) {
        const tcp_peer *peer = &job->peers[p];
        if (p != job->place && dpt_tcp_lives(job, p) && peer->data_ended > 0 && !peer->bye)
            return true;
    }
    return false;
}

/* A process that comes: whether it has seen the end of each process of the job. */
static bool have_all_ended(const tcp_job *job)
{
    for (size_t p = 0; p < job->n; p++)
        if (p != job->place && dpt_tcp_has(&job->in_job, p) && job->peers[p].fate != TCP_CLOSED)
            return false;
    return true;
}

void dpt_tcp_look(tcp_job *job)
{
    if (job->wait == TCP_NOTHING || job->over) return;
    if (job->left_behind) {
        end_wait(job, DPT_E_IO);
        return;
    }
    if (job->wait == TCP_IN_CLOSE) {
        look_at_close(job);
        return;
    }
    if (!atomic_load(&job->revoked)) look_at_settle(job);
    if (!atomic_load(&job->revoked) || job->over || is_to_see(job)) return;
    const size_t coordinator = find_coordinator(job);
    if (coordinator == job->place && job->comes) {
        snprintf(job->reason, sizeof job->reason,
                 have_all_ended(job)
                     ? "all processes of the job have ended before this process took part"
                     : "no process of the job has answered for %g s, before this process took "
                       "part: let it join again",
                 job->timeout);
        end_wait(job, DPT_E_IO);
    } else if (coordinator == job->place) {
        coordinate(job);
    } else if (job->told != coordinator) {
        dpt_tcp_send(job, coordinator, TCP_STATE);
        job->told = coordinator;
    }
}

/* ---- Frames ---------------------------------------------------------------------------------- */

/* A process that was told less by a coordinator that has died asks one that knows more. */
static void answer_late_state(tcp_job *job, size_t place, const tcp_frame *frame)
{
    tcp_peer *peer = &job->peers[place];
    if (frame->generation < job->generation) {
        dpt_tcp_send(job, place, dpt_tcp_has(&job->in_job, place) ? TCP_MENDED : TCP_LEFT);
        return;
    }
    peer->state = *frame;
    peer->has_state = true;
}

/* A decision: it counts if it comes from the coordinator that has this process's state. */
static void hear_decision(tcp_job *job, const tcp_frame *frame)
{
    if (frame->kind == TCP_MENDED && frame->generation > job->generation) {
        if (dpt_tcp_has(&frame->members, job->place))
            renew(job, &frame->members, frame->generation);
        else
            leave_behind(job);
        return;
    }
    if (frame->generation != job->generation) return;
    if (frame->kind == TCP_OUTCOME && job->wait == TCP_IN_SETTLE) {
        if (frame->settled > job->settled) job->settled = frame->settled;
        end_wait(job, job->count <= job->settled ? DPT_OK : DPT_E_IO);
    }
    if (job->wait != TCP_IN_MEND) return;
    if (frame->kind == TCP_WHOLE) end_wait(job, DPT_E_IO);
    if (frame->kind == TCP_TOO_FEW) end_for_want_of_others(job);
}

static void hear_revoke(tcp_job *job, size_t place, const tcp_frame *frame)
{
    if (frame->generation > job->revoked_generation) job->revoked_generation = frame->generation;
    if (frame->generation != job->generation) return;
    dpt_tcp_revoke(job, "process %zu of those that joined has reported a failure", place);
}

void dpt_tcp_hear(tcp_job *job, size_t place, const tcp_frame *frame)
{
    tcp_peer *peer = &job->peers[place];
    const bool now = frame->generation == job->generation;
    if (dpt_tcp_guest_hear(job, place, frame)) return;
    switch ((tcp_kind)frame->kind) {
    case TCP_REVOKE: hear_revoke(job, place, frame); break;
    case TCP_SETTLE:
        if (now) peer->count = frame->count;
        break;
    case TCP_SETTLED:
        if (!now || atomic_load(&job->revoked)) break; /* the coordinator decides */
        job->settled = frame->settled;
        if (job->wait == TCP_IN_SETTLE) end_wait(job, DPT_OK);
        break;
    case TCP_STATE: answer_late_state(job, place, frame); break;
    case TCP_OUTCOME:
    case TCP_MENDED:
    case TCP_WHOLE:
    case TCP_TOO_FEW:
        if (job->told == place && job->wait != TCP_NOTHING && !job->over) hear_decision(job, frame);
        break;
    case TCP_LEFT: leave_behind(job); break;
    case TCP_BYE: peer->bye = true; break;
    case TCP_BEAT:
    case TCP_KINDS: break;
    }
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* Waits until the service thread has an outcome.  With the mutex locked. */
static dpt_status await(tcp_job *job, tcp_wait what)
{
    job->wait = what;
    job->over = false;
    job->told = job->n;
    if (what == TCP_IN_SETTLE) dpt_tcp_send_all(job, TCP_SETTLE);
    if (what == TCP_IN_CLOSE) dpt_tcp_send_all(job, TCP_BYE);
    dpt_tcp_look(job);
    while (!job->over)
        pthread_cond_wait(&job->changed, &job->mutex);
    job->wait = TCP_NOTHING;
    return job->outcome;
}

dpt_status dpt_tcp_settle(tcp_job *job, dpt_error *error)
{
    pthread_mutex_lock(&job->mutex);
    job->count++;
    const dpt_status status = await(job, TCP_IN_SETTLE);
    pthread_mutex_unlock(&job->mutex);
    return status == DPT_OK ? DPT_OK : dpt_tcp_tell(job, error);
}

/* Those that are left, and the data connection of one that was let in. */
static void take_members(tcp_job *job)
{
    job->generation_now = job->generation;
    job->n_members = 0;
    for (size_t p = 0; p < job->n; p++) {
        tcp_peer *peer = &job->peers[p];
        if (!dpt_tcp_has(&job->in_job, p)) continue;
        job->members[job->n_members++] = p;
        if (peer->guest_data < 0) continue;
        peer->stream.socket = peer->guest_data;
        peer->guest_data = -1;
    }
}

static dpt_status begin_again(tcp_job *job, const char *why, bool admits, dpt_error *error)
{
    pthread_mutex_lock(&job->mutex);
    job->admits = admits;
    dpt_tcp_revoke(job, "%s", why);
    const dpt_status status = await(job, TCP_IN_MEND);
    job->admits = false;
    if (status == DPT_OK) take_members(job);
    pthread_mutex_unlock(&job->mutex);
    return status == DPT_OK ? DPT_OK : dpt_tcp_tell(job, error);
}

dpt_status dpt_tcp_mend(tcp_job *job, dpt_error *error)
{
    return begin_again(job, "a process goes on after a failure that the others do not know of",
                       false, error);
}

dpt_status dpt_tcp_admit(tcp_job *job, dpt_error *error)
{
    return begin_again(job, "a process lets another one in", true, error);
}

void dpt_tcp_part(tcp_job *job)
{
    pthread_mutex_lock(&job->mutex);
    (void)await(job, TCP_IN_CLOSE);
    pthread_mutex_unlock(&job->mutex);
}

void dpt_tcp_leave(tcp_job *job)
{
    pthread_mutex_lock(&job->mutex);
    if (!job->left_behind)
        snprintf(job->reason, sizeof job->reason, "this process has left the others");
    end_part(job);
    dpt_tcp_end_connections(job);
    pthread_mutex_unlock(&job->mutex);
    dpt_tcp_wake(job);
}
