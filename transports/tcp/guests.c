/* The guest: a process that comes, as the processes of the job see it.  It has connections to them
   and is no member.  It sends signs of life and, when it is ready, a TCP_STATE.  What it sends
   besides does not count, so a guest cannot disturb the job. */
#include "job.h"

#include <unistd.h>

static bool is_complete(const tcp_job *job)
{
    return job->guest < job->n && job->peers[job->guest].control >= 0 &&
           job->peers[job->guest].guest_data >= 0;
}

uint32_t dpt_tcp_guest_told(const tcp_job *job)
{
    return is_complete(job) ? (uint32_t)job->guest + 1 : 0;
}

static void note_ready(tcp_job *job)
{
    atomic_store(&job->ready, is_complete(job) && job->peers[job->guest].has_state);
}

void dpt_tcp_guest_drop(tcp_job *job)
{
    if (job->guest == job->n) return;
    tcp_peer *peer = &job->peers[job->guest];
    if (peer->control >= 0) (void)close(peer->control);
    if (peer->guest_data >= 0) (void)close(peer->guest_data);
    peer->control = peer->guest_data = -1;
    peer->n_out = 0;
    job->guest = job->n;
    note_ready(job);
}

void dpt_tcp_guest_seat(tcp_job *job, size_t place, uint32_t visit, int socket)
{
    tcp_peer *peer = &job->peers[place];
    job->guest = place;
    job->guest_visit = visit;
    job->guest_since = dpt_tcp_seconds();
    peer->control = socket;
    peer->fate = TCP_LIVES;
    peer->bye = peer->left = peer->has_state = false;
    peer->heard = job->guest_since;
    peer->data_ended = 0;
    peer->n_in = peer->n_out = 0;
    peer->count = 0;
    note_ready(job);
    dpt_tcp_wake(job);
}

bool dpt_tcp_guest_lacks_data(const tcp_job *job, const tcp_claim *claim)
{
    return claim->rank == job->guest && claim->visit == job->guest_visit &&
           job->peers[job->guest].guest_data < 0;
}

void dpt_tcp_guest_add_data(tcp_job *job, int socket)
{
    job->peers[job->guest].guest_data = socket;
    note_ready(job);
    dpt_tcp_wake(job);
}

/* A guest that an earlier coordinator has let in may speak of a generation that comes. */
bool dpt_tcp_guest_hear(tcp_job *job, size_t place, const tcp_frame *frame)
{
    if (place != job->guest) return false;
    tcp_peer *peer = &job->peers[place];
    if (frame->kind == TCP_REVOKE && frame->generation > job->revoked_generation &&
        frame->generation > job->generation)
        job->revoked_generation = frame->generation;
    if (frame->kind == TCP_STATE) {
        peer->state = *frame;
        peer->has_state = true;
        note_ready(job);
    }
    return true;
}

void dpt_tcp_guest_ended(tcp_job *job, size_t place)
{
    if (place == job->guest) dpt_tcp_guest_drop(job);
}

void dpt_tcp_guest_look(tcp_job *job, double now, double most)
{
    if (job->guest == job->n) return;
    const tcp_peer *peer = &job->peers[job->guest];
    const bool late = !peer->has_state && now - job->guest_since > most;
    if (late) dpt_tcp_send(job, job->guest, TCP_LEFT);
    if (late || now - peer->heard > job->timeout) dpt_tcp_guest_drop(job);
}

bool dpt_tcp_guest_admitted(const tcp_job *job)
{
    bool any = job->admits;
    for (size_t p = 0; p < job->n; p++)
        if (p != job->place && dpt_tcp_lives(job, p)) any = any || job->peers[p].state.admits;
    return any;
}

uint32_t dpt_tcp_guest_let_in(const tcp_job *job, tcp_set *members)
{
    const uint32_t next = job->generation + 1, told = dpt_tcp_guest_told(job);
    if (told == 0 || !job->peers[job->guest].has_state || !dpt_tcp_guest_admitted(job)) return next;
    for (size_t p = 0; p < job->n; p++)
        if (p != job->place && dpt_tcp_has(members, p) && job->peers[p].state.guest != told)
            return next;
    dpt_tcp_add(members, job->guest);
    /* An earlier coordinator may have told the guest alone. */
    const uint32_t known = job->peers[job->guest].state.generation;
    return known >= next ? known + 1 : next;
}

void dpt_tcp_guest_refuse(tcp_job *job, const tcp_set *members)
{
    if (!job->admits || job->guest == job->n || dpt_tcp_has(members, job->guest)) return;
    if (!job->peers[job->guest].has_state) return;
    dpt_tcp_send(job, job->guest, TCP_LEFT);
    dpt_tcp_guest_drop(job);
}

void dpt_tcp_guest_take_in(tcp_job *job, size_t place)
{
    tcp_peer *peer = &job->peers[place];
    dpt_tcp_add(&job->used, place);
    if (place == job->guest) job->guest = job->n;
    peer->fate = peer->control >= 0 ? TCP_LIVES : TCP_CLOSED;
    peer->has_state = false;
    peer->heard = dpt_tcp_seconds();
    note_ready(job);
}
