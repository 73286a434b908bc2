/* Tests how a process comes to a job that runs, inside of the transport through TCP: whom the door
   lets in, which guest it keeps, how long a process that comes waits, and what it is told.  A job
   of one process runs in this program, or the test plays the first process of a job. */
#include "door.h"
#include "harness.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const dpt_transport *dpt_transport_entry(uint32_t abi);

static const char secret_path[] = "test_door.secret", other_path[] = "test_door.other";
enum { JOINERS = 4, MOST_WAITS = 2000 };

static void rest(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

/* ---- Addresses and settings ------------------------------------------------------------------ */

static void write_secret(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (!file) return;
    (void)fputs(text, file);
    (void)fclose(file);
    (void)chmod(path, 0600);
}

static in_port_t port_of(int socket)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t n_bytes = sizeof at;
    if (getsockname(socket, (struct sockaddr *)&at, &n_bytes) != 0) return 0;
    return ntohs(at.sin_port);
}

/* A socket that listens at a free port of the loopback. */
static int listen_anywhere(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int one = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (one < 0 || bind(one, (struct sockaddr *)&at, sizeof at) != 0 || listen(one, 50) != 0)
        return -1;
    return one;
}

static in_port_t free_port(void)
{
    const int one = listen_anywhere();
    const in_port_t port = port_of(one);
    (void)close(one);
    return port;
}

static void prepare(in_port_t port)
{
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)port);
    write_secret(secret_path, "a secret of the tests\n");
    write_secret(other_path, "another secret of the tests\n");
    (void)setenv("DPTRAIN_ADDRESS", address, 1);
    (void)setenv("DPTRAIN_SECRET_FILE", secret_path, 1);
    (void)setenv("DPTRAIN_JOIN_TIMEOUT", "60", 1);
    (void)setenv("DPTRAIN_PROCESSES", "1", 1);
    (void)setenv("DPTRAIN_RANK", "0", 1);
    (void)setenv("DPTRAIN_JOINERS", "4", 1);
    (void)unsetenv("DPTRAIN_JOIN");
}

/* The settings of a process that comes there. */
static bool read_settings(tcp_settings *out)
{
    dpt_error error;
    (void)setenv("DPTRAIN_JOIN", getenv("DPTRAIN_ADDRESS"), 1);
    const dpt_status status = dpt_tcp_settings_read(out, &error);
    (void)unsetenv("DPTRAIN_JOIN");
    return status == DPT_OK;
}

/* ---- A job of one process -------------------------------------------------------------------- */

typedef struct running {
    const dpt_transport *transport;
    tcp_job *job;
    tcp_settings comer; /* of a process that comes, and has been given place 1 */
} running;

static bool begin_job(running *r)
{
    dpt_error error;
    void *self = NULL;
    size_t rank, n;
    prepare(free_port());
    r->transport = dpt_transport_entry(DPT_TRANSPORT_ABI);
    if (!read_settings(&r->comer)) return false;
    if (r->transport->open(&self, &rank, &n, &error) != DPT_OK) return false;
    r->job = self;
    r->comer.n = 1;
    r->comer.n_joiners = JOINERS;
    r->comer.rank = 1;
    return r->transport->guests->tell(self, "what the job tells", &error) == DPT_OK;
}

static size_t guest_of(tcp_job *job)
{
    pthread_mutex_lock(&job->mutex);
    const size_t place = job->guest;
    pthread_mutex_unlock(&job->mutex);
    return place;
}

static bool has_state(tcp_job *job, size_t place)
{
    pthread_mutex_lock(&job->mutex);
    const bool has = job->peers[place].has_state;
    pthread_mutex_unlock(&job->mutex);
    return has;
}

/* Connects as a process that comes does, once. */
static dpt_status claim(const tcp_settings *comer, uint32_t kind, uint32_t visit, int *out,
                        dpt_error *error)
{
    static join j;
    target to = {.address = comer->address, .kind = kind, .port = 1, .visit = visit};
    dpt_tcp_join_begin(comer, &j);
    *out = -1;
    return dpt_tcp_reach_once(&j, &to, out, error);
}

static bool is_open(int socket)
{
    struct pollfd one = {.fd = socket, .events = POLLRDHUP};
    return poll(&one, 1, 200) == 0;
}

static void close_entry(tcp_entry *entry, size_t n)
{
    for (size_t p = 0; entry->sockets && p < n; p++) {
        if (entry->sockets[p].control >= 0) (void)close(entry->sockets[p].control);
        if (entry->sockets[p].data >= 0) (void)close(entry->sockets[p].data);
    }
    if (entry->parts.listener >= 0) (void)close(entry->parts.listener);
    free(entry->sockets);
    free(entry->parts.places);
    free(entry->text);
}

/* A guest keeps its connections, whoever says that it is the guest, until it has gone. */
static void guest_stays(test *t)
{
    running r;
    tcp_entry entry;
    dpt_error error;
    int second = -1;
    REQUIRE(begin_job(&r));
    tcp_settings comer = r.comer;
    REQUIRE_OK(dpt_tcp_enter(&comer, &entry, &error));
    CHECK_TEXT(entry.text, "what the job tells");
    for (int i = 0; i < MOST_WAITS && dpt_tcp_guest_told(r.job) == 0; i++)
        rest();
    CHECK_SIZE(guest_of(r.job), 1);
    CHECK_STATUS(claim(&r.comer, TCP_CONTROL, 77, &second, &error), DPT_E_STATE);
    CHECK_CONTAINS(error.message, "still has the connection of a process that came before");
    CHECK_STATUS(claim(&r.comer, TCP_DATA, 77, &second, &error), DPT_E_STATE);
    CHECK_STATUS(claim(&r.comer, TCP_ENTER, 77, &second, &error), DPT_E_STATE);
    CHECK(is_open(entry.sockets[0].control));
    CHECK(is_open(entry.sockets[0].data));
    CHECK_SIZE(guest_of(r.job), 1);
    close_entry(&entry, r.job->n);
    for (int i = 0; i < MOST_WAITS && guest_of(r.job) < r.job->n; i++)
        rest();
    REQUIRE_OK(claim(&r.comer, TCP_CONTROL, 78, &second, &error));
    /* The data connection of the guest before comes late. */
    int late = -1, data = -1;
    CHECK_STATUS(claim(&r.comer, TCP_DATA, 77, &late, &error), DPT_E_STATE);
    CHECK_OK(claim(&r.comer, TCP_DATA, 78, &data, &error));
    (void)close(second);
    (void)close(data);
    r.transport->close(r.job);
}

/* A guest that is ready and is not let in, because a process does not hear it, is let go.  It would
   otherwise stop the job after each step. */
static void guest_refused(test *t)
{
    running r;
    dpt_error error;
    tcp_frame frame = {.kind = TCP_STATE};
    int control = -1;
    size_t rank = 9, n = 9;
    REQUIRE(begin_job(&r));
    REQUIRE_OK(claim(&r.comer, TCP_ENTER, 5, &control, &error));
    /* Its data connection is missing. */
    CHECK(send(control, &frame, sizeof frame, MSG_NOSIGNAL) == (ssize_t)sizeof frame);
    for (int i = 0; i < MOST_WAITS && !has_state(r.job, 1); i++)
        rest();
    CHECK_OK(r.transport->guests->admit(r.job, &rank, &n, &error));
    CHECK_SIZE(n, 1);
    CHECK_SIZE(guest_of(r.job), r.job->n);
    CHECK(!is_open(control));
    (void)close(control);
    r.transport->close(r.job);
}

/* ---- The first process of a job, which the test plays ---------------------------------------- */

/* What it does to connections, and what it has seen. */
typedef struct player {
    tcp_settings settings;
    join side;
    tcp_host host;
    tcp_verdict verdict; /* of TCP_ENTER; with */
    uint32_t value;
    int n_dead; /* so many greetings name a process that has died */
    int n_greetings;
    bool ends_early; /* it ends after the first greeting has begun */
    atomic_bool stop;
    pthread_t thread;
} player;

static tcp_verdict judge(void *user, const tcp_claim *claim, uint32_t *value)
{
    const player *p = user;
    *value = p->value;
    return claim->kind == TCP_ENTER ? p->verdict : TCP_ACCEPTED;
}

/* Place 0 is the player's.  Nobody listens at that of place 1. */
static void greet(void *user, guest *g)
{
    player *p = user;
    tcp_welcome welcome = {.n = 4, .n_first = 2, .place = 2, .timeout = 20000};
    tcp_place places[4] = {{.family = 4}};
    if (g->claim.kind != TCP_ENTER) return; /* it stays open */
    dpt_tcp_add(&welcome.members, 0);
    if (p->n_greetings++ < p->n_dead) dpt_tcp_add(&welcome.members, 1);
    dpt_tcp_place_write(&places[1], &p->settings.address, free_port());
    (void)send(g->socket, &welcome, sizeof welcome / (p->ends_early ? 2 : 1), MSG_NOSIGNAL);
    if (p->ends_early) {
        (void)close(g->socket);
        (void)close(p->side.listener);
        p->side.listener = -1;
    } else {
        (void)send(g->socket, places, sizeof places, MSG_NOSIGNAL);
    }
    g->socket = -1;
}

static void *play(void *argument)
{
    player *p = argument;
    while (!atomic_load(&p->stop))
        dpt_tcp_look_at_guests(&p->side);
    return NULL;
}

static bool begin_playing(player *p)
{
    const int listener = listen_anywhere();
    prepare(port_of(listener));
    if (listener < 0 || !read_settings(&p->settings)) return false;
    dpt_tcp_join_begin(&p->settings, &p->side);
    p->side.listener = listener;
    p->host = (tcp_host){.user = p, .judge = judge, .seat = greet};
    p->side.host = &p->host;
    return pthread_create(&p->thread, NULL, play, p) == 0;
}

static void end_playing(player *p)
{
    atomic_store(&p->stop, true);
    (void)pthread_join(p->thread, NULL);
    dpt_tcp_join_end(&p->side);
}

/* A process that comes tries again when a process of the job has just died. */
static void comes_at_a_death(test *t)
{
    static player p;
    tcp_entry entry;
    dpt_error error;
    p = (player){.verdict = TCP_ACCEPTED, .n_dead = 3};
    REQUIRE(begin_playing(&p));
    tcp_settings comer = p.settings;
    CHECK_OK(dpt_tcp_enter(&comer, &entry, &error));
    CHECK_SIZE((size_t)p.n_greetings, 4);
    CHECK(entry.sockets && entry.sockets[0].control >= 0 && entry.sockets[1].control < 0);
    close_entry(&entry, 4);
    end_playing(&p);
}

/* The same, and the job does not mend in time. */
static void comes_in_vain(test *t)
{
    static player p;
    tcp_entry entry;
    dpt_error error;
    p = (player){.verdict = TCP_ACCEPTED, .n_dead = 1000000};
    REQUIRE(begin_playing(&p));
    tcp_settings comer = p.settings;
    comer.join_timeout = 1;
    CHECK_STATUS(dpt_tcp_enter(&comer, &entry, &error), DPT_E_IO);
    CHECK_CONTAINS(error.message, "has not let this process in within 1 s (DPTRAIN_JOIN_TIMEOUT): "
                                  "process 1 of the job is not reached at 127.0.0.1:");
    CHECK(p.n_greetings > 1);
    end_playing(&p);
}

/* The first process dies while it greets. */
static void loses_the_first(test *t)
{
    static player p;
    tcp_entry entry;
    dpt_error error;
    p = (player){.verdict = TCP_ACCEPTED, .ends_early = true};
    REQUIRE(begin_playing(&p));
    tcp_settings comer = p.settings;
    CHECK_STATUS(dpt_tcp_enter(&comer, &entry, &error), DPT_E_IO);
    CHECK_CONTAINS(error.message, "the first process of the job has ended while this process came");
    CHECK_CONTAINS(error.message, "told on stderr where processes may come now");
    end_playing(&p);
}

static void check_told(test *t, tcp_verdict verdict, uint32_t value, const char *part)
{
    static player p;
    tcp_entry entry;
    dpt_error error;
    p = (player){.verdict = verdict, .value = value};
    REQUIRE(begin_playing(&p));
    tcp_settings comer = p.settings;
    comer.join_timeout = 1;
    CHECK_STATUS(dpt_tcp_enter(&comer, &entry, &error),
                 verdict == TCP_BUSY ? DPT_E_IO : DPT_E_INVALID);
    CHECK_CONTAINS(error.message, part);
    end_playing(&p);
}

/* What refuses a process that comes is told in words that do not speak of variables it lacks. */
static void refusals(test *t)
{
    check_told(t, TCP_NO_PLACE, 0, "was started without DPTRAIN_JOINERS, so no process can come");
    check_told(t, TCP_NO_PLACE, 1, "lets 1 process come in all (DPTRAIN_JOINERS), and so many");
    check_told(t, TCP_NO_PLACE, 3, "lets 3 processes come in all (DPTRAIN_JOINERS), and so many");
    check_told(t, TCP_OTHER_PLACE, 3,
               "listens process 3 of the job, and only the first process "
               "lets others in: give the address of the first process");
    check_told(t, TCP_BUSY, 0, "it does not train yet, or lets another process in");
    check_told(t, TCP_WRONG_COUNT, 0, "start the same version of dptrain");
    static player p;
    tcp_entry entry;
    dpt_error error;
    p = (player){.verdict = TCP_ACCEPTED};
    REQUIRE(begin_playing(&p));
    (void)setenv("DPTRAIN_SECRET_FILE", other_path, 1);
    tcp_settings comer;
    CHECK(read_settings(&comer));
    CHECK_STATUS(dpt_tcp_enter(&comer, &entry, &error), DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "has another secret: copy its DPTRAIN_SECRET_FILE to this host");
    end_playing(&p);
}

/* ---- Other programs at the address ----------------------------------------------------------- */

typedef struct stranger {
    int listener;
    const char *says; /* NULL: it closes the connection */
    size_t n_connections;
    atomic_bool stop;
} stranger;

static void *serve(void *argument)
{
    stranger *s = argument;
    int sockets[64];
    size_t n = 0;
    while (!atomic_load(&s->stop) && n < 64) {
        struct pollfd one = {.fd = s->listener, .events = POLLIN};
        if (poll(&one, 1, 20) <= 0) continue;
        sockets[n] = accept(s->listener, NULL, NULL);
        if (sockets[n] < 0) continue;
        s->n_connections++;
        if (!s->says) {
            (void)close(sockets[n]);
            continue;
        }
        (void)send(sockets[n], s->says, strlen(s->says), MSG_NOSIGNAL);
        n++;
    }
    while (n > 0)
        (void)close(sockets[--n]);
    return NULL;
}

static void check_stranger(test *t, const char *says, dpt_status status, const char *part)
{
    stranger s = {.listener = listen_anywhere(), .says = says};
    pthread_t thread;
    tcp_settings comer;
    tcp_entry entry;
    dpt_error error;
    prepare(port_of(s.listener));
    REQUIRE(read_settings(&comer));
    comer.join_timeout = says ? 1 : 60;
    REQUIRE(pthread_create(&thread, NULL, serve, &s) == 0);
    CHECK_STATUS(dpt_tcp_enter(&comer, &entry, &error), status);
    CHECK_CONTAINS(error.message, part);
    atomic_store(&s.stop, true);
    (void)pthread_join(thread, NULL);
    CHECK(s.n_connections > 0);
    (void)close(s.listener);
}

static void strangers(test *t)
{
    check_stranger(t, "", DPT_E_IO, "a program accepts connections there and does not answer");
    check_stranger(t, "no\r\n", DPT_E_IO,
                   "a program accepts connections there and does not answer");
    check_stranger(t, "SSH-2.0-other\r\n", DPT_E_INVALID,
                   "listens another program than dptrain: give the address of the first process");
    check_stranger(t, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", DPT_E_INVALID,
                   "listens another program than dptrain");
    check_stranger(t, "dptrain\n\1\1\1\1....the nonce of a process of another version.",
                   DPT_E_INVALID, "is of another version of dptrain");
    check_stranger(t, NULL, DPT_E_IO, "has closed 5 connections without an answer");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"guest_stays", guest_stays},
        {"guest_refused", guest_refused},
        {"comes_at_a_death", comes_at_a_death},
        {"comes_in_vain", comes_in_vain},
        {"loses_the_first", loses_the_first},
        {"refusals", refusals},
        {"strangers", strangers},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
