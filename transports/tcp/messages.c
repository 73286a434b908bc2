/* Messages over the data connections.  All of it runs in the communication thread.

   A message travels in frames of at most MOST_FRAME bytes.  Channels take turns, so a small message
   does not wait behind a large one.

   Between two processes all channels share one connection, so what arrives must be taken from it
   even if its receive is not posted yet: messages of other channels are behind it.  To bound the
   memory for that, a sender may send WINDOW bytes of a channel more than the other process has
   posted receives for.  The other process tells how much that is (a credit).  A receive that is
   posted is always covered by the credit plus the window, so nobody waits for ever.

   What arrives for a posted receive goes straight into its memory, but for what has come together
   with the header.

   After a failure the rest of the frame that was being sent is zeros, because the memory of its
   message is not to be touched.  The header has the generation, and frames of an earlier one are
   dropped. */
#include "job.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

enum {
    WINDOW = 1 << 18,
    MOST_FRAME = 1 << 17,
    MOST_AT_ONCE = 1 << 20, /* bytes from one process before the next one's turn */
    CHANNELS = DPT_TRANSPORT_CHANNELS
};

enum { PART_FIRST, PART_NEXT, PART_CREDIT, PARTS }; /* tcp_header.kind */

static const uint8_t zeros[4096];

/* ---- Queues ---------------------------------------------------------------------------------- */

static void append(tcp_ops *queue, tcp_op *op)
{
    op->next = NULL;
    if (queue->last)
        queue->last->next = op;
    else
        queue->first = op;
    queue->last = op;
}

static void pop(tcp_ops *queue)
{
    queue->first = queue->first->next;
    if (!queue->first) queue->last = NULL;
}

static void drop_early(tcp_lane *lane)
{
    tcp_early *early = lane->early_first;
    lane->early_first = early->next;
    if (!lane->early_first) lane->early_last = NULL;
    free(early->data);
    free(early);
}

static void finish(tcp_op *op)
{
    op->request->n_left--;
}

/* Fails the messages of all processes. */
static dpt_status fail(tcp_job *job, dpt_status status, const char *what, dpt_error *error)
{
    pthread_mutex_lock(&job->mutex);
    dpt_tcp_revoke(job, "%s", what);
    pthread_mutex_unlock(&job->mutex);
    return DPT_FAIL(error, status, "%s", what);
}

static dpt_status fail_size(tcp_job *job, uint64_t sent, uint64_t expected, dpt_error *error)
{
    char text[96];
    snprintf(text, sizeof text, "%llu bytes are sent where %llu are expected",
             (unsigned long long)sent, (unsigned long long)expected);
    return fail(job, DPT_E_INTERNAL, text, error);
}

/* ---- Sending --------------------------------------------------------------------------------- */

/* Chooses the next frame: credits first, because others wait for them. */
static bool next_frame(const tcp_job *job, tcp_stream *s)
{
    s->out = (tcp_header){.generation = job->generation_now};
    for (size_t c = 0; c < CHANNELS; c++) {
        tcp_lane *lane = &s->lanes[c];
        if (!lane->to_tell) continue;
        lane->to_tell = false;
        s->out.channel = (uint16_t)c;
        s->out.kind = PART_CREDIT;
        s->out.count = lane->n_told;
        return true;
    }
    for (size_t i = 0; i < CHANNELS; i++) {
        const size_t c = (s->next_lane + i) % CHANNELS;
        tcp_lane *lane = &s->lanes[c];
        tcp_op *op = lane->sends.first;
        const uint64_t room = lane->n_allowed + WINDOW - lane->n_sent;
        if (!op || room == 0) continue;
        uint64_t n = op->n_bytes - op->n_moved;
        if (n > room) n = room;
        if (n > MOST_FRAME) n = MOST_FRAME;
        s->out.channel = (uint16_t)c;
        s->out.kind = op->n_moved == 0 ? PART_FIRST : PART_NEXT;
        s->out.n_bytes = (uint32_t)n;
        s->out.count = op->n_bytes;
        s->out_op = op;
        lane->n_sent += n;
        s->next_lane = c + 1;
        return true;
    }
    return false;
}

/* Counts n bytes of the frame as sent. */
static void advance(tcp_stream *s, size_t n)
{
    const size_t header = n < s->out_header_left ? n : s->out_header_left;
    s->out_header_left -= header;
    n -= header;
    s->out_left -= n;
    tcp_op *op = s->out_op;
    if (!op) return;
    op->n_moved += n;
    if (op->n_moved == op->n_bytes) {
        pop(&s->lanes[s->out.channel].sends);
        finish(op);
    }
    if (s->out_left == 0) s->out_op = NULL;
}

/* Sends until the connection takes no more.  Returns false if it has ended. */
static bool send_frames(const tcp_job *job, tcp_stream *s)
{
    for (;;) {
        if (s->out_header_left == 0 && s->out_left == 0) {
            if (!next_frame(job, s)) return true;
            s->out_header_left = sizeof s->out;
            s->out_left = s->out.n_bytes;
        }
        const uint8_t *data = s->out_op ? s->out_op->data + s->out_op->n_moved : zeros;
        const uint64_t most = s->out_op ? MOST_FRAME : sizeof zeros;
        struct iovec parts[2] = {
            {(char *)&s->out + sizeof s->out - s->out_header_left, s->out_header_left},
            {(void *)(uintptr_t)data, s->out_left < most ? s->out_left : most}};
        const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        const ssize_t n = sendmsg(s->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno == EAGAIN || errno == ENOBUFS;
        advance(s, (size_t)n);
    }
}

static bool has_to_send(const tcp_stream *s)
{
    if (s->out_header_left > 0 || s->out_left > 0) return true;
    for (size_t c = 0; c < CHANNELS; c++) {
        const tcp_lane *lane = &s->lanes[c];
        if (lane->to_tell) return true;
        if (lane->sends.first && lane->n_allowed + WINDOW > lane->n_sent) return true;
    }
    return false;
}

/* ---- Receiving ------------------------------------------------------------------------------- */

/* A message begins to arrive: for a receive, or early. */
static dpt_status begin_message(tcp_job *job, tcp_lane *lane, uint64_t n_bytes, dpt_error *error)
{
    tcp_op *op = lane->receives.first;
    if (op) {
        if (op->n_bytes != n_bytes) return fail_size(job, n_bytes, op->n_bytes, error);
        pop(&lane->receives);
        lane->current = op;
        return DPT_OK;
    }
    tcp_early *early = calloc(1, sizeof *early);
    if (!early) return fail(job, DPT_E_NO_MEMORY, "no memory for messages", error);
    early->n_bytes = n_bytes;
    if (lane->early_last)
        lane->early_last->next = early;
    else
        lane->early_first = early;
    lane->early_last = early;
    return DPT_OK;
}

/* What the other process has no right to send is a defect, and not to be stored. */
static dpt_status begin_frame(tcp_job *job, tcp_stream *s, dpt_error *error)
{
    const tcp_header *h = &s->in;
    s->in_left = h->n_bytes;
    if (h->channel >= CHANNELS || h->kind >= PARTS || h->n_bytes > MOST_FRAME)
        return fail(job, DPT_E_INTERNAL, "what another process sends is no message", error);
    if (h->generation != job->generation_now) return DPT_OK; /* dropped */
    tcp_lane *lane = &s->lanes[h->channel];
    if (h->kind == PART_CREDIT) {
        lane->n_allowed = h->count;
        return DPT_OK;
    }
    lane->n_got += h->n_bytes;
    const bool open =
        lane->current || (lane->early_last && lane->early_last->n_got < lane->early_last->n_bytes);
    const uint64_t left = lane->current ? lane->current->n_bytes - lane->current->n_moved
                          : open        ? lane->early_last->n_bytes - lane->early_last->n_got
                                        : h->count;
    if (open != (h->kind == PART_NEXT) || h->n_bytes > left || h->n_bytes == 0 ||
        lane->n_got > lane->n_told + WINDOW)
        return fail(job, DPT_E_INTERNAL, "another process sends more than it may", error);
    return open ? DPT_OK : begin_message(job, lane, h->count, error);
}

/* Returns where the next bytes of the frame go, or NULL if they are dropped. */
static dpt_status find_target(tcp_job *job, tcp_stream *s, uint8_t **target, dpt_error *error)
{
    *target = NULL;
    if (s->in.generation != job->generation_now) return DPT_OK;
    const tcp_lane *lane = &s->lanes[s->in.channel];
    if (lane->current) {
        *target = lane->current->data + lane->current->n_moved;
        return DPT_OK;
    }
    tcp_early *early = lane->early_last;
    if (early->room < early->n_got + s->in_left) {
        const size_t room = (size_t)(early->n_got + s->in_left);
        uint8_t *data = realloc(early->data, room);
        if (!data) return fail(job, DPT_E_NO_MEMORY, "no memory for messages", error);
        early->data = data;
        early->room = room;
    }
    *target = early->data + early->n_got;
    return DPT_OK;
}

/* n bytes of the frame are at their place. */
static void took(const tcp_job *job, tcp_stream *s, size_t n)
{
    tcp_lane *lane = &s->lanes[s->in.channel];
    s->in_left -= n;
    if (s->in_left == 0) s->in_header_got = 0;
    if (s->in.generation != job->generation_now) return;
    tcp_op *op = lane->current;
    if (!op) {
        lane->early_last->n_got += n;
        return;
    }
    op->n_moved += n;
    if (op->n_moved < op->n_bytes) return;
    lane->current = NULL;
    finish(op);
}

/* Takes what is in the staging memory.  Leaves it empty. */
static dpt_status take_staged(tcp_job *job, tcp_stream *s, dpt_error *error)
{
    while (s->staging_begin < s->staging_end) {
        const uint8_t *from = s->staging + s->staging_begin;
        size_t n = s->staging_end - s->staging_begin;
        if (s->in_header_got < sizeof s->in) {
            if (n > sizeof s->in - s->in_header_got) n = sizeof s->in - s->in_header_got;
            memcpy((char *)&s->in + s->in_header_got, from, n);
            s->in_header_got += n;
            s->staging_begin += n;
            if (s->in_header_got < sizeof s->in) continue;
            DPT_TRY(begin_frame(job, s, error));
            if (s->in_left == 0) s->in_header_got = 0;
            continue;
        }
        uint8_t *target;
        DPT_TRY(find_target(job, s, &target, error));
        if (n > s->in_left) n = (size_t)s->in_left;
        if (target) memcpy(target, from, n);
        s->staging_begin += n;
        took(job, s, n);
    }
    s->staging_begin = s->staging_end = 0;
    return DPT_OK;
}

/* Receives what is there.  *ended: the connection has ended. */
static dpt_status receive_frames(tcp_job *job, tcp_stream *s, bool *ended, dpt_error *error)
{
    DPT_TRY(take_staged(job, s, error)); /* a failure has left it */
    for (size_t sum = 0; sum < MOST_AT_ONCE;) {
        uint8_t *target = NULL;
        const bool inside = s->in_header_got == sizeof s->in && s->in_left >= TCP_STAGING_BYTES;
        if (inside) DPT_TRY(find_target(job, s, &target, error));
        const ssize_t n = recv(s->socket, target ? target : s->staging,
                               target ? (size_t)s->in_left : TCP_STAGING_BYTES, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        *ended = n == 0 || (n < 0 && errno != EAGAIN);
        if (n <= 0) return DPT_OK;
        sum += (size_t)n;
        if (target) {
            took(job, s, (size_t)n);
            continue;
        }
        s->staging_end = (size_t)n;
        DPT_TRY(take_staged(job, s, error));
        if ((size_t)n < TCP_STAGING_BYTES && !inside) return DPT_OK; /* that was all */
    }
    return DPT_OK;
}

/* ---- Moving ---------------------------------------------------------------------------------- */

/* The service thread says what the end of a connection means. */
static void note_end(tcp_job *job, size_t place)
{
    pthread_mutex_lock(&job->mutex);
    job->peers[place].data_ended = dpt_tcp_seconds();
    pthread_mutex_unlock(&job->mutex);
    job->peers[place].stream.socket = -1 - job->peers[place].stream.socket; /* closed later */
    dpt_tcp_wake(job);
}

static dpt_status move(tcp_job *job, dpt_error *error)
{
    struct pollfd all[TCP_MOST_PROCESSES];
    for (size_t i = 0; i < job->n_members; i++) {
        const tcp_stream *s = &job->peers[job->members[i]].stream;
        const bool sends = s->socket >= 0 && has_to_send(s);
        all[i] = (struct pollfd){.fd = s->socket >= 0 ? s->socket : -1,
                                 .events = (short)(POLLIN | (sends ? POLLOUT : 0))};
    }
    if (poll(all, job->n_members, 0) <= 0) return DPT_OK;
    for (size_t i = 0; i < job->n_members; i++) {
        const size_t place = job->members[i];
        tcp_stream *s = &job->peers[place].stream;
        bool ended = false;
        if (all[i].fd < 0 || all[i].revents == 0) continue;
        if (all[i].revents & ~POLLOUT) DPT_TRY(receive_frames(job, s, &ended, error));
        if (!ended) ended = !send_frames(job, s);
        if (ended) note_end(job, place);
    }
    return DPT_OK;
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* The memory of an early message becomes that of its receive. */
static dpt_status post_early(tcp_job *job, tcp_lane *lane, tcp_op *op, dpt_error *error)
{
    const tcp_early *early = lane->early_first;
    if (early->n_bytes != op->n_bytes) return fail_size(job, early->n_bytes, op->n_bytes, error);
    if (early->n_got > 0) memcpy(op->data, early->data, early->n_got);
    op->n_moved = early->n_got;
    if (op->n_moved == op->n_bytes)
        finish(op);
    else
        lane->current = op;
    drop_early(lane);
    return DPT_OK;
}

static dpt_status post(tcp_job *job, const dpt_message *m, tcp_op *op, dpt_error *error)
{
    tcp_stream *s = &job->peers[job->members[m->peer]].stream;
    tcp_lane *lane = &s->lanes[m->channel];
    if (s->socket < 0) return fail(job, DPT_E_IO, "a process has ended", error);
    if (!m->receive) {
        append(&lane->sends, op);
        return DPT_OK;
    }
    lane->n_posted += op->n_bytes;
    if (lane->n_posted - lane->n_told >= WINDOW / 2) {
        lane->n_told = lane->n_posted;
        lane->to_tell = true;
    }
    if (lane->early_first) return post_early(job, lane, op, error);
    append(&lane->receives, op);
    return DPT_OK;
}

dpt_status dpt_tcp_start(tcp_job *job, tcp_messages what, tcp_request **out, dpt_error *error)
{
    if (atomic_load(&job->revoked)) {
        dpt_tcp_drop(job);
        return dpt_tcp_tell(job, error);
    }
    const dpt_message *messages = what.items;
    const size_t n = what.n;
    tcp_request *request = calloc(1, sizeof *request + n * sizeof *request->ops);
    if (!request) return fail(job, DPT_E_NO_MEMORY, "no memory for messages", error);
    request->n_left = n;
    for (size_t i = 0; i < n; i++) {
        tcp_op *op = &request->ops[i];
        *op =
            (tcp_op){.request = request, .data = messages[i].data, .n_bytes = messages[i].n_bytes};
        const dpt_status status = post(job, &messages[i], op, error);
        if (status == DPT_OK) continue;
        dpt_tcp_drop(job);
        free(request);
        return status;
    }
    for (size_t i = 0; i < job->n_members; i++) {
        const size_t place = job->members[i];
        tcp_stream *s = &job->peers[place].stream;
        if (place != job->place && s->socket >= 0 && !send_frames(job, s)) note_end(job, place);
    }
    *out = request;
    return DPT_OK;
}

dpt_status dpt_tcp_test(tcp_job *job, tcp_request *request, bool *done, dpt_error *error)
{
    dpt_status status = DPT_OK;
    if (!atomic_load(&job->revoked)) status = move(job, error);
    if (atomic_load(&job->revoked)) {
        if (status == DPT_OK) status = dpt_tcp_tell(job, error);
        dpt_tcp_drop(job);
        free(request);
        *done = true;
        return status;
    }
    *done = request->n_left == 0;
    if (*done) free(request);
    return DPT_OK;
}

/* ---- After a failure ------------------------------------------------------------------------- */

void dpt_tcp_drop(tcp_job *job)
{
    if (job->dropped) return;
    job->dropped = true;
    for (size_t p = 0; p < job->n; p++) {
        tcp_stream *s = &job->peers[p].stream;
        s->out_op = NULL;
        for (size_t c = 0; s->lanes && c < CHANNELS; c++) {
            tcp_lane *lane = &s->lanes[c];
            while (lane->early_first)
                drop_early(lane);
            *lane = (tcp_lane){.n_sent = 0};
        }
    }
}

void dpt_tcp_renew(tcp_job *job)
{
    dpt_tcp_drop(job);
    job->dropped = false;
}
