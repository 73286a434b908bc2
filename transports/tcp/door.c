/* The door: a thread that listens for processes that come, as long as the job runs.

   Process 0 listens at the address of the job.  If it has died, the first process that lives
   listens at the same port of its own address.  That first process greets who comes.  Every other
   process listens where it listened when the job began, for the connections of the guest.

   The mutex is the job's. */
#include "door.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tcp_door {
    tcp_job *job;
    tcp_settings settings;
    tcp_host host;
    join side, front;  /* front: of a first process other than process 0 */
    bool tried;        /* to listen in front */
    tcp_place *places; /* (job->n) */
    pthread_t thread;
    atomic_bool stop;
};

/* ---- Claims ---------------------------------------------------------------------------------- */

/* Whether the job ends: one of its processes has called close. */
static bool is_ending(const tcp_job *job)
{
    for (size_t p = 0; p < job->n; p++)
        if (job->peers[p].bye) return true;
    return job->wait == TCP_IN_CLOSE;
}

static size_t find_first(const tcp_job *job)
{
    size_t p = 0;
    while (!dpt_tcp_lives(job, p))
        p++;
    return p;
}

/* The place of the next process that comes; n: none. */
static size_t find_free(const tcp_job *job)
{
    size_t p = job->n_first;
    while (p < job->n && dpt_tcp_has(&job->used, p))
        p++;
    return p;
}

static tcp_verdict judge_entry(const tcp_job *job, uint32_t *value)
{
    *value = (uint32_t)job->place;
    if (find_first(job) != job->place) return TCP_OTHER_PLACE;
    *value = (uint32_t)(job->n - job->n_first);
    if (find_free(job) == job->n) return TCP_NO_PLACE;
    const bool busy = job->guest < job->n || !job->text || job->comes || is_ending(job);
    return busy || atomic_load(&job->revoked) ? TCP_BUSY : TCP_ACCEPTED;
}

static tcp_verdict judge_guest(const tcp_job *job, const tcp_claim *claim, uint32_t *value)
{
    const bool free = claim->rank >= job->n_first && claim->rank < job->n &&
                      !dpt_tcp_has(&job->used, claim->rank);
    *value = (uint32_t)job->n_first;
    if (claim->n != job->n_first) return TCP_WRONG_COUNT;
    *value = (uint32_t)(job->n - job->n_first);
    if (claim->joiners != *value) return TCP_WRONG_JOINERS;
    *value = (uint32_t)job->place;
    if (claim->to != job->place || claim->kind > TCP_DATA || claim->port > 65535)
        return TCP_OTHER_PLACE;
    if (!free) return TCP_TWICE;
    /* A guest is not dropped for another one, because it may be let in at this moment.  The other
       one tries again until the guest that has gone is missed here too. */
    if (claim->kind == TCP_CONTROL) return job->guest < job->n ? TCP_BUSY : TCP_ACCEPTED;
    return dpt_tcp_guest_lacks_data(job, claim) ? TCP_ACCEPTED : TCP_TWICE;
}

static tcp_verdict judge(void *user, const tcp_claim *claim, uint32_t *value)
{
    tcp_door *door = user;
    pthread_mutex_lock(&door->job->mutex);
    const tcp_verdict verdict = claim->kind == TCP_ENTER ? judge_entry(door->job, value)
                                                         : judge_guest(door->job, claim, value);
    pthread_mutex_unlock(&door->job->mutex);
    return verdict;
}

/* ---- Greeting -------------------------------------------------------------------------------- */

/* What is sent, in one piece; NULL: no memory.  With the mutex locked. */
static uint8_t *write_greeting(const tcp_door *door, size_t place, size_t *n_bytes)
{
    const tcp_job *job = door->job;
    const size_t n_places = job->n * sizeof *door->places;
    const tcp_welcome welcome = {.n = (uint32_t)job->n,
                                 .n_first = (uint32_t)job->n_first,
                                 .place = (uint32_t)place,
                                 .first = (uint32_t)job->place,
                                 .timeout = dpt_tcp_timeout_ms(&door->settings),
                                 .n_text = (uint32_t)job->n_text,
                                 .members = job->in_job,
                                 .used = job->used};
    *n_bytes = sizeof welcome + n_places + job->n_text;
    uint8_t *bytes = malloc(*n_bytes);
    if (!bytes) return NULL;
    memcpy(bytes, &welcome, sizeof welcome);
    memcpy(bytes + sizeof welcome, door->places, n_places);
    if (job->n_text > 0) memcpy(bytes + sizeof welcome + n_places, job->text, job->n_text);
    return bytes;
}

/* The mutex is not held while this process sends, for GUEST_SECONDS at most. */
static void greet(tcp_door *door, guest *g)
{
    tcp_job *job = door->job;
    size_t n_bytes = 0;
    pthread_mutex_lock(&job->mutex);
    const size_t place = find_free(job);
    if (place < job->n) dpt_tcp_place_write(&door->places[place], &g->address, g->claim.port);
    uint8_t *bytes = place < job->n ? write_greeting(door, place, &n_bytes) : NULL;
    pthread_mutex_unlock(&job->mutex);
    const double until = dpt_tcp_seconds() + GUEST_SECONDS;
    if (bytes && dpt_tcp_send_bytes(until, g->socket, bytes, n_bytes) == 0) {
        pthread_mutex_lock(&job->mutex);
        dpt_tcp_guest_seat(job, place, g->claim.visit, g->socket);
        pthread_mutex_unlock(&job->mutex);
        g->socket = -1;
    }
    free(bytes);
    if (g->socket >= 0) (void)close(g->socket);
    g->socket = -1;
}

static void seat(void *user, guest *g)
{
    tcp_door *door = user;
    if (g->claim.kind == TCP_ENTER) {
        greet(door, g);
        return;
    }
    pthread_mutex_lock(&door->job->mutex);
    if (g->claim.kind == TCP_CONTROL) {
        dpt_tcp_place_write(&door->places[g->claim.rank], &g->address, g->claim.port);
        dpt_tcp_guest_seat(door->job, g->claim.rank, g->claim.visit, g->socket);
    } else if (dpt_tcp_guest_lacks_data(door->job, &g->claim)) {
        dpt_tcp_guest_add_data(door->job, g->socket);
    } else {
        (void)close(g->socket); /* the guest has gone in this moment */
    }
    pthread_mutex_unlock(&door->job->mutex);
    g->socket = -1;
}

/* ---- The thread ------------------------------------------------------------------------------ */

static in_port_t *port_of(tcp_address *address)
{
    return address->any.sa_family == AF_INET6 ? &address->v6.sin6_port : &address->v4.sin_port;
}

/* If this is the first process that lives, and process 0 has died: listens at the port of the job.
   One line says where, or why not. */
static void look_at_front(tcp_door *door)
{
    tcp_job *job = door->job;
    tcp_address address = {.any = {.sa_family = AF_UNSPEC}};
    socklen_t n_bytes = sizeof address;
    char text[TCP_ADDRESS_TEXT];
    dpt_error error = {.status = DPT_OK};
    if (door->tried) return;
    pthread_mutex_lock(&job->mutex);
    const bool is_first = !job->comes && job->place > 0 && find_first(job) == job->place &&
                          !atomic_load(&job->revoked) && !is_ending(job);
    pthread_mutex_unlock(&job->mutex);
    if (!is_first) return;
    door->tried = true;
    if (getsockname(door->side.listener, &address.any, &n_bytes) != 0) return;
    *port_of(&address) = *port_of(&door->settings.address);
    dpt_tcp_address_text(&address, text);
    if (dpt_tcp_listen_at(&door->front, &address, &error) == DPT_OK)
        (void)fprintf(stderr, "dptrain: process %zu: processes may come to %s now\n", job->place,
                      text);
    else
        (void)fprintf(stderr, "dptrain: process %zu: no process can come any more: %s\n",
                      job->place, error.message);
}

static void *serve(void *argument)
{
    tcp_door *door = argument;
    while (!atomic_load(&door->stop)) {
        dpt_tcp_look_at_guests(&door->side);
        look_at_front(door);
        if (door->front.listener >= 0) dpt_tcp_look_at_guests(&door->front);
        pthread_mutex_lock(&door->job->mutex);
        dpt_tcp_guest_look(door->job, dpt_tcp_seconds(), door->settings.join_timeout);
        pthread_mutex_unlock(&door->job->mutex);
    }
    return NULL;
}

dpt_status dpt_tcp_door_open(tcp_job *job, const tcp_settings *settings, tcp_door_parts *parts,
                             dpt_error *error)
{
    tcp_door *door = calloc(1, sizeof *door);
    if (!door) {
        if (parts->listener >= 0) (void)close(parts->listener);
        free(parts->places);
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for processes that come");
    }
    door->job = job;
    door->settings = *settings;
    door->host = (tcp_host){.user = door, .judge = judge, .seat = seat};
    dpt_tcp_join_begin(&door->settings, &door->side);
    dpt_tcp_join_begin(&door->settings, &door->front);
    door->side.host = door->front.host = &door->host;
    door->side.listener = parts->listener;
    door->places = parts->places;
    *parts = (tcp_door_parts){.listener = -1};
    const int code = dpt_tcp_thread_start(&door->thread, serve, door);
    if (code == 0) {
        job->door = door;
        return DPT_OK;
    }
    atomic_store(&door->stop, true);
    dpt_tcp_join_end(&door->side);
    explicit_bzero(&door->settings, sizeof door->settings);
    free(door->places);
    free(door);
    return DPT_FAIL_NATIVE(error, DPT_E_INTERNAL, code, "cannot start a thread: %s",
                           strerror(code));
}

void dpt_tcp_door_close(tcp_door *door)
{
    if (!door) return;
    atomic_store(&door->stop, true);
    (void)pthread_join(door->thread, NULL);
    dpt_tcp_join_end(&door->side);
    dpt_tcp_join_end(&door->front);
    explicit_bzero(&door->settings, sizeof door->settings); /* they hold the secret */
    free(door->places);
    free(door);
}
