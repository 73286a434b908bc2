/* Tests the transport through TCP by its table of functions: several processes, which this program
   forks, exchange messages over the loopback, and some of them are killed. */
#include "base/bytes.h"
#include "collective/launch.h"
#include "dpt_error.h"
#include "harness.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 4, SMALL = 100, LARGE = 9 << 20, MOST_TRIES = 600000, N_ENDS = 50 };

static const char secret_path[] = "test_tcp.secret", other_path[] = "test_tcp.other";

/* What a forked process has. */
typedef struct process {
    const dpt_transport *transport;
    void *self;
    size_t rank, n;
    dpt_error error;
} process;

/* A scenario returns 0 if everything was as expected, else the number of the line. */
typedef int scenario(process *p);

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) return __LINE__;                                                         \
    } while (0)

static void rest(long microseconds)
{
    (void)nanosleep(&(struct timespec){microseconds / 1000000, microseconds % 1000000 * 1000},
                    NULL);
}

/* ---- What a process does --------------------------------------------------------------------- */

static dpt_status finish(process *p, void *request)
{
    bool done = false;
    for (int i = 0; i < MOST_TRIES; i++) {
        const dpt_status status = p->transport->test(p->self, request, &done, &p->error);
        if (status != DPT_OK || done) return status;
        rest(100);
    }
    return DPT_E_STATE;
}

static dpt_status start(process *p, const dpt_message *messages, size_t n, void **request)
{
    return p->transport->start(p->self, messages, n, request, &p->error);
}

static dpt_status exchange(process *p, const dpt_message *messages, size_t n)
{
    void *request = NULL;
    const dpt_status status = start(p, messages, n, &request);
    return status == DPT_OK ? finish(p, request) : status;
}

/* Every process sends n bytes to every other one, and checks what comes. */
static dpt_status gather(process *p, uint8_t *room, size_t n)
{
    dpt_message messages[2 * MOST];
    size_t count = 0;
    memset(room + p->rank * n, (int)(p->rank + n), n);
    for (size_t r = 0; r < p->n; r++) {
        if (r == p->rank) continue;
        memset(room + r * n, 0xee, n);
        messages[count++] =
            (dpt_message){.channel = 1, .peer = r, .data = room + p->rank * n, .n_bytes = n};
        messages[count++] = (dpt_message){
            .receive = true, .channel = 1, .peer = r, .data = room + r * n, .n_bytes = n};
    }
    const dpt_status status = exchange(p, messages, count);
    for (size_t i = 0; status == DPT_OK && i < p->n * n; i++)
        if (room[i] != (uint8_t)(i / n + n)) return DPT_E_INTERNAL;
    return status;
}

static int gathers(process *p)
{
    uint8_t *room = malloc((size_t)MOST * LARGE);
    EXPECT(room);
    for (size_t n = 1; n < LARGE; n = 3 * n + 1)
        EXPECT(gather(p, room, n) == DPT_OK);
    EXPECT(gather(p, room, LARGE) == DPT_OK);
    EXPECT(p->transport->settle(p->self, &p->error) == DPT_OK);
    free(room);
    return 0;
}

static int settles(process *p)
{
    for (int i = 0; i < 3; i++)
        EXPECT(p->transport->settle(p->self, &p->error) == DPT_OK);
    return 0;
}

/* Small and large messages of several channels, sent long before their receives, which are posted
   in another order of channels. */
static int keeps_order(process *p)
{
    static uint32_t values[3][SMALL];
    static uint8_t large[2][LARGE];
    dpt_message m[3 * SMALL + 1];
    void *requests[4] = {NULL};
    size_t n = 0;
    const bool receives = p->rank == 1;
    if (receives) rest(100000);
    for (size_t i = 0; i < LARGE; i++)
        large[0][i] = (uint8_t)(i * 7 + i / 1000);
    for (size_t c = 3; c-- > 0;) {
        for (uint32_t i = 0; i < SMALL; i++) {
            values[c][i] = receives ? 0 : 1000 * (uint32_t)c + i;
            m[i] = (dpt_message){.receive = receives,
                                 .channel = (unsigned)(5 * c + 2),
                                 .peer = 1 - p->rank,
                                 .data = &values[c][i],
                                 .n_bytes = sizeof **values};
        }
        if (c == 2) {
            m[SMALL] = (dpt_message){.receive = receives,
                                     .channel = 12,
                                     .peer = 1 - p->rank,
                                     .data = large[receives],
                                     .n_bytes = LARGE};
        }
        EXPECT(start(p, m, SMALL + (c == 2), &requests[n++]) == DPT_OK);
    }
    for (size_t i = 3; i-- > 0;)
        EXPECT(finish(p, requests[i]) == DPT_OK);
    for (size_t c = 0; c < 3; c++)
        for (uint32_t i = 0; i < SMALL; i++)
            EXPECT(values[c][i] == 1000 * (uint32_t)c + i);
    EXPECT(!receives || memcmp(large[0], large[1], LARGE) == 0);
    return 0;
}

/* A receive of another size than its send fails in both, and mend says that nobody has died. */
static int notices_sizes(process *p)
{
    uint8_t data[64] = {0};
    const dpt_message m = {.receive = p->rank == 1,
                           .peer = 1 - p->rank,
                           .data = data,
                           .n_bytes = p->rank == 1 ? 63 : 64};
    dpt_status status = exchange(p, &m, 1);
    const dpt_message back = {
        .receive = p->rank == 0, .peer = 1 - p->rank, .data = data, .n_bytes = 8};
    if (status == DPT_OK) status = exchange(p, &back, 1);
    EXPECT(status != DPT_OK);
    EXPECT(p->rank == 0 || strstr(p->error.message, "64 bytes are sent where 63 are expected"));
    EXPECT(p->transport->mend(p->self, &p->rank, &p->n, &p->error) != DPT_OK);
    return 0;
}

/* Exchanges until one of the processes has died, and mends. */
static int lose(process *p, uint8_t *room, size_t victim, long microseconds)
{
    const size_t n = p->n, rank = p->rank;
    if (rank == victim && microseconds >= 0) {
        if (fork() == 0) {
            rest(microseconds);
            (void)kill(getppid(), SIGKILL);
            _exit(0);
        }
    }
    dpt_status status = DPT_OK;
    for (size_t size = 1; status == DPT_OK; size = (size * 5 + 1) % (1 << 20) + 1)
        status = gather(p, room, size);
    EXPECT(rank != victim);
    EXPECT(status == DPT_E_IO);
    EXPECT(p->transport->mend(p->self, &p->rank, &p->n, &p->error) == DPT_OK);
    EXPECT(p->n == n - 1 && p->rank == rank - (rank > victim));
    return 0;
}

static int loses_two(process *p)
{
    uint8_t *room = malloc((size_t)MOST << 20);
    EXPECT(room);
    int line = lose(p, room, 2, 30000);
    if (line == 0) line = lose(p, room, 0, 7000);
    for (size_t size = 1; line == 0 && size < 100000; size = 3 * size + 1)
        if (gather(p, room, size) != DPT_OK) line = __LINE__;
    EXPECT(line != 0 || p->transport->settle(p->self, &p->error) == DPT_OK);
    free(room);
    return line;
}

/* Process 2 dies, and then process 0, which decides who is left, instead of mending. */
static int loses_in_mend(process *p)
{
    uint8_t room[4 * SMALL];
    dpt_status status = gather(p, room, SMALL);
    EXPECT(p->rank != 2 || status == DPT_OK); /* others may see the failure in it */
    if (p->rank == 2) (void)raise(SIGKILL);
    while (status == DPT_OK)
        status = gather(p, room, SMALL);
    if (p->rank == 0) {
        rest(50000);
        (void)raise(SIGKILL);
    }
    EXPECT(p->transport->mend(p->self, &p->rank, &p->n, &p->error) == DPT_OK);
    while (p->n > 2 && p->transport->mend(p->self, &p->rank, &p->n, &p->error) == DPT_OK)
        ;
    EXPECT(p->n == 2);
    EXPECT(gather(p, room, SMALL) == DPT_OK);
    EXPECT(p->transport->settle(p->self, &p->error) == DPT_OK);
    return 0;
}

/* A process dies while the others settle: settle fails in all. */
static int loses_in_settle(process *p)
{
    uint8_t room[4 * SMALL];
    EXPECT(gather(p, room, SMALL) == DPT_OK);
    EXPECT(p->transport->settle(p->self, &p->error) == DPT_OK);
    if (p->rank == 1) {
        rest(50000);
        (void)raise(SIGKILL);
    }
    EXPECT(p->transport->settle(p->self, &p->error) != DPT_OK);
    EXPECT(p->transport->mend(p->self, &p->rank, &p->n, &p->error) == DPT_OK);
    EXPECT(p->n == 3);
    EXPECT(p->transport->settle(p->self, &p->error) == DPT_OK);
    return 0;
}

/* Process 1 stands still for longer than the timeout: the others go on, and it is told so. */
static int stands_still(process *p)
{
    uint8_t room[4 * SMALL];
    EXPECT(gather(p, room, SMALL) == DPT_OK);
    if (p->rank == 1) {
        const pid_t mine = getpid();
        if (fork() == 0) {
            rest(2000000);
            (void)kill(mine, SIGCONT);
            _exit(0);
        }
        (void)raise(SIGSTOP);
    }
    dpt_status status = DPT_OK;
    while (status == DPT_OK)
        status = gather(p, room, SMALL);
    const dpt_status mended = p->transport->mend(p->self, &p->rank, &p->n, &p->error);
    if (p->rank == 1 && mended != DPT_OK) {
        EXPECT(strstr(p->error.message, "have gone on without this one"));
        return 0;
    }
    EXPECT(mended == DPT_OK && p->n == 2);
    EXPECT(gather(p, room, SMALL) == DPT_OK);
    rest(1500000); /* process 1 is to find this one alive */
    return 0;
}

/* Processes 0 and 1 stand still, and are killed after 3 seconds.  They may have gone on with each
   other before, so process 2 may not go on alone. */
static int ends_behind_silence(process *p)
{
    uint8_t room[4 * SMALL];
    dpt_status status = gather(p, room, SMALL);
    EXPECT(status == DPT_OK);
    if (p->rank < 2) {
        const pid_t mine = getpid();
        if (fork() == 0) {
            rest(3000000);
            (void)kill(mine, SIGKILL);
            _exit(0);
        }
        (void)raise(SIGSTOP);
    }
    rest(4000000);
    while (status == DPT_OK)
        status = gather(p, room, SMALL);
    EXPECT(p->transport->mend(p->self, &p->rank, &p->n, &p->error) != DPT_OK);
    EXPECT(strstr(p->error.message, "1 of 3 processes hear each other, which is too few"));
    return 0;
}

/* Process 0 gives up and does not end: the others go on without it. */
static int gives_up(process *p)
{
    uint8_t room[4 * SMALL];
    dpt_status status = gather(p, room, SMALL);
    EXPECT(p->rank != 0 || status == DPT_OK); /* others may see the failure in it */
    if (p->rank == 0) {
        p->transport->leave(p->self);
        p->transport->leave(p->self);
        EXPECT(gather(p, room, SMALL) == DPT_E_IO);
        EXPECT(p->transport->settle(p->self, &p->error) != DPT_OK);
        EXPECT(p->transport->mend(p->self, &p->rank, &p->n, &p->error) != DPT_OK);
        EXPECT(strstr(p->error.message, "this process has left the others"));
        for (;;) /* until the test kills it */
            rest(1000000);
    }
    while (status == DPT_OK)
        status = gather(p, room, SMALL);
    EXPECT(p->transport->mend(p->self, &p->rank, &p->n, &p->error) == DPT_OK && p->n == 2);
    EXPECT(gather(p, room, SMALL) == DPT_OK);
    EXPECT(p->transport->settle(p->self, &p->error) == DPT_OK);
    return 0;
}

/* Breaks one connection to the process that listens at a port: the last one that was made, which
   carries data. */
static bool break_connection(unsigned port)
{
    struct sockaddr_in at;
    int last = -1;
    for (int i = 0; i < 64; i++) {
        socklen_t n_bytes = sizeof at;
        if (getpeername(i, (struct sockaddr *)&at, &n_bytes) != 0) continue;
        if (at.sin_family == AF_INET && ntohs(at.sin_port) == port) last = i;
    }
    return last >= 0 && shutdown(last, SHUT_RDWR) == 0;
}

/* Process 0 sees the end of the connection to process 1 in one request.  The next one fails at
   once. */
static dpt_status see_end(process *p)
{
    uint8_t data[2];
    void *requests[2] = {NULL};
    bool done = false;
    const dpt_message m = {.receive = true, .channel = 3, .peer = 1, .data = data, .n_bytes = 1};
    dpt_status status = start(p, &m, 1, &requests[0]);
    for (int i = 0; status == DPT_OK && i < 200; i++) {
        status = p->transport->test(p->self, requests[0], &done, &p->error);
        rest(1000);
    }
    return status == DPT_OK ? start(p, &m, 1, &requests[1]) : status;
}

/* The data connection of processes 0 and 1 breaks, and both live.  Process 1 is left behind. */
static int breaks_connection(process *p)
{
    uint8_t room[4 * SMALL];
    dpt_status status = gather(p, room, SMALL);
    EXPECT(p->rank != 1 || status == DPT_OK); /* others may see the failure in it */
    const char *colon = strrchr(getenv("DPTRAIN_ADDRESS"), ':');
    if (p->rank == 1) EXPECT(break_connection((unsigned)atoi(colon + 1)));
    if (p->rank == 0) status = see_end(p);
    while (status == DPT_OK)
        status = gather(p, room, SMALL);
    const dpt_status mended = p->transport->mend(p->self, &p->rank, &p->n, &p->error);
    if (p->rank == 1 && mended != DPT_OK) {
        EXPECT(strstr(p->error.message, "have gone on without this one"));
        return 0;
    }
    EXPECT(mended == DPT_OK && p->n == 2);
    EXPECT(gather(p, room, SMALL) == DPT_OK);
    EXPECT(p->transport->settle(p->self, &p->error) == DPT_OK);
    return 0;
}

/* ---- Processes that come --------------------------------------------------------------------- */

static const char told[] = "what the job tells";
enum { ROUNDS = 50, SAYS_WAITS = 1, SAYS_END = 2, SAYS_LAST = 4 };

/* Every process says a byte; *any becomes the bits of all. */
static dpt_status say(process *p, uint8_t mine, uint8_t *any)
{
    uint8_t all[2 * MOST] = {0};
    dpt_message messages[4 * MOST];
    size_t count = 0;
    for (size_t r = 0; r < p->n; r++) {
        if (r == p->rank) continue;
        messages[count++] = (dpt_message){.peer = r, .data = &mine, .n_bytes = 1};
        messages[count++] =
            (dpt_message){.receive = true, .peer = r, .data = &all[r], .n_bytes = 1};
    }
    const dpt_status status = count > 0 ? exchange(p, messages, count) : DPT_OK;
    *any = mine;
    for (size_t r = 0; r < p->n; r++)
        *any |= all[r];
    return status;
}

/* Lets the one in that waits. */
static dpt_status admit(process *p)
{
    const dpt_status status = p->transport->settle(p->self, &p->error);
    if (status != DPT_OK) return status;
    return p->transport->guests->admit(p->self, &p->rank, &p->n, &p->error);
}

/* Works on until a process has said that it is the last one to come.  Who waits is let in, and who
   dies is left behind. */
static int works(process *p, uint8_t says)
{
    uint8_t any = 0;
    for (size_t i = 0; !(any & SAYS_END);) {
        const bool ends = p->rank == 0 && i >= ROUNDS;
        const bool waits = p->transport->guests->waits(p->self);
        if (any & SAYS_LAST) i++;
        dpt_status status =
            say(p, (uint8_t)((waits ? SAYS_WAITS : 0) | (ends ? SAYS_END : 0) | says), &any);
        if (status == DPT_OK && (any & SAYS_WAITS) && !(any & SAYS_END)) status = admit(p);
        for (int tries = 0; status != DPT_OK && tries < 10; tries++)
            status = p->transport->mend(p->self, &p->rank, &p->n, &p->error);
        EXPECT(status == DPT_OK);
        rest(2000);
    }
    EXPECT(p->n == 3);
    p->error = (dpt_error){.status = DPT_OK};
    return 0;
}

static int lets_in(process *p)
{
    const dpt_transport_guests *guests = p->transport->guests;
    size_t place = 9, n_first = 9;
    EXPECT(guests && guests->most(p->self) == 6 && guests->left(p->self) == 4);
    EXPECT(!guests->comes(p->self, &place, &n_first));
    EXPECT(place == p->rank && n_first == 2 && p->n == 2);
    enum { TOO_LONG = (4 << 20) + 1 };
    char *long_text = malloc(TOO_LONG + 1);
    EXPECT(long_text);
    memset(long_text, 'x', TOO_LONG);
    long_text[TOO_LONG] = '\0';
    EXPECT(guests->tell(p->self, long_text, &p->error) == DPT_E_INVALID);
    free(long_text);
    EXPECT(guests->tell(p->self, told, &p->error) == DPT_OK);
    return works(p, 0);
}

static int come(process *p, uint8_t says)
{
    const dpt_transport_guests *guests = p->transport->guests;
    size_t place = 9, n_first = 9;
    EXPECT(guests->comes(p->self, &place, &n_first));
    EXPECT(place >= 2 && place < 6 && n_first == 2 && p->rank == 0 && p->n == 1);
    EXPECT(strcmp(guests->told(p->self), told) == 0);
    EXPECT(p->transport->mend(p->self, &p->rank, &p->n, &p->error) == DPT_OK);
    EXPECT(!guests->comes(p->self, &place, &n_first));
    EXPECT(guests->left(p->self) == 5 - place);
    EXPECT(p->n >= 2 && p->rank == p->n - 1);
    EXPECT(guests->tell(p->self, told, &p->error) == DPT_OK);
    return works(p, says);
}

static int comes(process *p)
{
    return come(p, 0);
}

static int comes_last(process *p)
{
    return come(p, SAYS_LAST);
}

/* Connects, and waits for its end without asking to be let in. */
static int stays_outside(process *p)
{
    (void)p;
    rest(60000000);
    return __LINE__;
}

static int joins_not(process *p)
{
    (void)p;
    return 0;
}

/* ---- Starting processes ---------------------------------------------------------------------- */

/* A port at which nobody listens, below those that Linux takes for connections by default: such a
   one might be taken before the process of a test listens. */
static unsigned free_port(void)
{
    enum { LOWEST = 10000, PORTS = 20000, STEP = 7 };
    static unsigned turn;
    for (int i = 0; i < PORTS; i++) {
        const unsigned port = LOWEST + ((unsigned)getpid() * STEP + turn++) % PORTS;
        const struct sockaddr_in at = {.sin_family = AF_INET,
                                       .sin_port = htons((in_port_t)port),
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        const int one = socket(AF_INET, SOCK_STREAM, 0);
        const bool is_free = bind(one, (const struct sockaddr *)&at, sizeof at) == 0;
        (void)close(one);
        if (is_free) return port;
    }
    return 0;
}

static void write_secret(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    if (!file) return;
    (void)fputs(text, file);
    (void)fclose(file);
    (void)chmod(path, mode);
}

static void set_number(const char *name, size_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%zu", value);
    (void)setenv(name, text, 1);
}

/* The environment of a job; returns its port. */
static unsigned prepare(size_t n)
{
    char address[32];
    const unsigned port = free_port();
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    write_secret(secret_path, "a secret of the tests\n", 0600);
    (void)setenv("DPTRAIN_ADDRESS", address, 1);
    (void)setenv("DPTRAIN_SECRET_FILE", secret_path, 1);
    (void)setenv("DPTRAIN_PROCESS_TIMEOUT", "20", 1);
    (void)setenv("DPTRAIN_JOIN_TIMEOUT", "60", 1);
    (void)unsetenv("DPTRAIN_JOINERS");
    (void)unsetenv("DPTRAIN_JOIN");
    set_number("DPTRAIN_PROCESSES", n);
    return port;
}

static int run(scenario *what)
{
    process p = {.error = {.status = DPT_OK}};
    EXPECT(dpti_transport_load("tcp", &p.transport, &p.error) == DPT_OK);
    if (p.transport->open(&p.self, &p.rank, &p.n, &p.error) != DPT_OK) {
        (void)fprintf(stderr, "open: %s\n", p.error.message);
        return __LINE__;
    }
    p.error = (dpt_error){.status = DPT_OK};
    const int line = what(&p);
    if (line != 0)
        (void)fprintf(stderr, "process %zu, line %d: %s\n", p.rank, line, p.error.message);
    else if (p.error.status == DPT_OK)
        p.transport->close(p.self);
    return line;
}

static pid_t begin(scenario *what, size_t rank)
{
    (void)fflush(NULL);
    const pid_t id = fork();
    if (id != 0) return id;
    (void)alarm(60); /* whatever hangs */
    set_number("DPTRAIN_RANK", rank);
    _exit(run(what) == 0 ? 0 : 1);
}

/* Checks that each process ends well, but for those that are to be killed. */
static void end(test *t, const pid_t *ids, size_t n, const char *killed)
{
    for (size_t r = 0; r < n; r++) {
        int status = 0;
        const bool is_killed = strchr(killed, (int)('0' + r)) != NULL;
        CHECK(waitpid(ids[r], &status, 0) == ids[r]);
        if (is_killed)
            CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        else
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static int knock(unsigned port)
{
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int one = socket(AF_INET, SOCK_STREAM, 0);
    for (int i = 0; i < 1000; i++) {
        if (connect(one, (const struct sockaddr *)&at, sizeof at) == 0) return one;
        rest(10000);
    }
    (void)close(one);
    return -1;
}

/* Begins a process that comes to the job. */
static pid_t begin_coming(scenario *what)
{
    (void)setenv("DPTRAIN_JOIN", getenv("DPTRAIN_ADDRESS"), 1);
    const pid_t id = begin(what, 0);
    (void)unsetenv("DPTRAIN_JOIN");
    return id;
}

static void run_all(test *t, scenario *what, size_t n, const char *killed)
{
    pid_t ids[MOST];
    for (size_t r = n; r-- > 0;) /* process 0 last: the others wait for it */
        ids[r] = begin(what, r);
    end(t, ids, n, killed);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void gathers_sizes(test *t)
{
    (void)prepare(3);
    run_all(t, gathers, 3, "");
}

/* A process that hears the end of settle first ends at once.  Another one, which hears that end
   before it hears that settle is over, must not take it for a failure of settle. */
static void ends_behind_settle(test *t)
{
    for (int i = 0; i < N_ENDS; i++) {
        (void)prepare(MOST);
        run_all(t, settles, MOST, "");
    }
}

static void order_of_messages(test *t)
{
    (void)prepare(2);
    run_all(t, keeps_order, 2, "");
}

static void mismatched_sizes(test *t)
{
    (void)prepare(2);
    run_all(t, notices_sizes, 2, "");
}

static void two_deaths(test *t)
{
    (void)prepare(4);
    run_all(t, loses_two, 4, "20");
}

static void death_in_mend(test *t)
{
    (void)prepare(4);
    run_all(t, loses_in_mend, 4, "20");
}

static void death_in_settle(test *t)
{
    (void)prepare(4);
    run_all(t, loses_in_settle, 4, "1");
}

static void standstill(test *t)
{
    (void)prepare(3);
    (void)setenv("DPTRAIN_PROCESS_TIMEOUT", "0.5", 1);
    run_all(t, stands_still, 3, "");
}

/* The end of a connection is no proof of a death if the process was silent before, for longer than
   the timeout or for most of it. */
static void end_behind_silence(test *t)
{
    static const char *const timeouts[] = {"0.5", "4"};
    for (size_t i = 0; i < 2; i++) {
        (void)prepare(3);
        (void)setenv("DPTRAIN_PROCESS_TIMEOUT", timeouts[i], 1);
        run_all(t, ends_behind_silence, 3, "01");
    }
}

static void broken_connection(test *t)
{
    (void)prepare(3);
    run_all(t, breaks_connection, 3, "");
}

static void given_up(test *t)
{
    pid_t ids[3];
    (void)prepare(3);
    for (size_t r = 3; r-- > 0;)
        ids[r] = begin(gives_up, r);
    end(t, ids + 1, 2, "");
    int status = 0;
    CHECK(waitpid(ids[0], &status, WNOHANG) == 0); /* it lives */
    (void)kill(ids[0], SIGKILL);
    end(t, ids, 1, "0");
}

static void one_more(test *t)
{
    pid_t ids[3];
    const unsigned port = prepare(2);
    set_number("DPTRAIN_JOINERS", 4);
    ids[0] = begin(lets_in, 0);
    (void)close(knock(port));
    ids[1] = begin(lets_in, 1);
    ids[2] = begin_coming(comes_last);
    end(t, ids, 3, "");
}

/* Processes that come are killed: outside, or at any moment while they are let in.  One comes in
   the end. */
static void deaths_of_guests(test *t)
{
    pid_t ids[3], victim;
    int status = 0;
    const unsigned port = prepare(2);
    set_number("DPTRAIN_JOINERS", 4);
    ids[0] = begin(lets_in, 0);
    (void)close(knock(port));
    ids[1] = begin(lets_in, 1);
    for (long i = 0; i < 8; i++) {
        /* At most three are let in, and the last place is for the one that stays. */
        victim = begin_coming(i < 3 ? comes : stays_outside);
        rest(i < 3 ? 3000 * (i + 1) : 10000 * (i - 2));
        CHECK(kill(victim, SIGKILL) == 0);
        CHECK(waitpid(victim, &status, 0) == victim && WIFSIGNALED(status));
    }
    ids[2] = begin_coming(comes_last);
    end(t, ids, 3, "");
}

/* Another secret; and no place. */
static void guests_refused(test *t)
{
    pid_t ids[3], wrong;
    int status = 0;
    const unsigned port = prepare(2);
    set_number("DPTRAIN_JOINERS", 4);
    write_secret(other_path, "another secret of the tests\n", 0600);
    ids[0] = begin(lets_in, 0);
    (void)close(knock(port));
    (void)setenv("DPTRAIN_SECRET_FILE", other_path, 1);
    wrong = begin_coming(joins_not);
    (void)setenv("DPTRAIN_SECRET_FILE", secret_path, 1);
    ids[1] = begin(lets_in, 1);
    CHECK(waitpid(wrong, &status, 0) == wrong && WIFEXITED(status) && WEXITSTATUS(status) == 1);
    /* One process with another number of places. */
    set_number("DPTRAIN_JOINERS", 3);
    wrong = begin(joins_not, 1);
    CHECK(waitpid(wrong, &status, 0) == wrong && WIFEXITED(status) && WEXITSTATUS(status) == 1);
    ids[2] = begin_coming(comes_last);
    end(t, ids, 3, "");
}

/* Strangers that say nothing, garbage or half of a greeting, processes with another secret and of a
   rank that is taken: the others join all the same. */
static void strangers(test *t)
{
    char garbage[200];
    pid_t ids[2], wrong[2];
    int sockets[3], status = 0;
    const unsigned port = prepare(2);
    write_secret(other_path, "another secret of the tests\n", 0600);
    memset(garbage, 'g', sizeof garbage);
    ids[0] = begin(gathers, 0);
    for (size_t i = 0; i < 3; i++)
        REQUIRE((sockets[i] = knock(port)) >= 0);
    CHECK(send(sockets[1], garbage, sizeof garbage, MSG_NOSIGNAL) > 0);
    CHECK(send(sockets[2], "dptrain\n", 8, MSG_NOSIGNAL) == 8);
    (void)setenv("DPTRAIN_SECRET_FILE", other_path, 1);
    wrong[0] = begin(joins_not, 1);
    CHECK(waitpid(wrong[0], &status, 0) == wrong[0] && WIFEXITED(status) &&
          WEXITSTATUS(status) == 1);
    (void)setenv("DPTRAIN_SECRET_FILE", secret_path, 1);
    (void)setenv("DPTRAIN_PROCESSES", "3", 1);
    wrong[1] = begin(joins_not, 1);
    CHECK(waitpid(wrong[1], &status, 0) == wrong[1] && WIFEXITED(status) &&
          WEXITSTATUS(status) == 1);
    (void)setenv("DPTRAIN_PROCESSES", "2", 1);
    ids[1] = begin(gathers, 1);
    end(t, ids, 2, "");
    for (size_t i = 0; i < 3; i++)
        (void)close(sockets[i]);
}

/* What process 0 does to a process that has greeted it, if many strangers come: it closes the
   connection.  The process tries again. */
static void evicted_joiner(test *t)
{
    pid_t ids[2];
    char hello[8];
    const int on = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    at.sin_port = htons((uint16_t)prepare(2));
    ids[1] = begin(gathers, 1); /* before the socket is made, of which it would have a copy */
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    REQUIRE(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 5) == 0);
    for (int i = 0; i < 2; i++) {
        struct pollfd next = {.fd = listener, .events = POLLIN};
        CHECK(poll(&next, 1, 20000) == 1);
        const int one = next.revents ? accept(listener, NULL, NULL) : -1;
        CHECK(one >= 0 && recv(one, hello, i == 0 ? sizeof hello : 0, MSG_WAITALL) >= 0);
        if (one >= 0) (void)close(one);
    }
    (void)close(listener);
    ids[0] = begin(gathers, 0);
    end(t, ids, 2, "");
}

static void check_refused(test *t, const char *name, const char *value, const char *part)
{
    process p = {.error = {.status = DPT_OK}};
    (void)prepare(2);
    (void)setenv("DPTRAIN_RANK", "1", 1);
    (void)unsetenv("DPTRAIN_NETWORKS");
    (void)setenv(name, value, 1);
    REQUIRE_OK(dpti_transport_load("tcp", &p.transport, &p.error));
    CHECK(p.transport->open(&p.self, &p.rank, &p.n, &p.error) != DPT_OK);
    CHECK_CONTAINS(p.error.message, part);
    (void)unsetenv("DPTRAIN_NETWORKS");
}

static void settings(test *t)
{
    check_refused(t, "DPTRAIN_ADDRESS", "", "give HOST:PORT");
    check_refused(t, "DPTRAIN_ADDRESS", "127.0.0.1", "give HOST:PORT");
    check_refused(t, "DPTRAIN_ADDRESS", "127.0.0.1:0", "with a port from 1");
    check_refused(t, "DPTRAIN_ADDRESS", "::1:99", "with a port from 1");
    check_refused(t, "DPTRAIN_ADDRESS", "[::1:99", "with a port from 1");
    check_refused(t, "DPTRAIN_ADDRESS", "[fe80::1]:99", "name this host's interface too");
    check_refused(t, "DPTRAIN_ADDRESS", "[fe80::1%lo]:99", "([fe80::1%lo]:99) is no loopback");
    check_refused(t, "DPTRAIN_ADDRESS", "10.1.2.3:99", "in no network of DPTRAIN_NETWORKS");
    check_refused(t, "DPTRAIN_ADDRESS", "0.0.0.0:99", "in no network of DPTRAIN_NETWORKS");
    check_refused(t, "DPTRAIN_NETWORKS", "10.1.0.0", "is no network");
    check_refused(t, "DPTRAIN_NETWORKS", "10.1.0.0/33", "is no network");
    check_refused(t, "DPTRAIN_NETWORKS", "10.1/8,", "is no network");
    check_refused(t, "DPTRAIN_PROCESSES", "257", "give a number from 1 to 256");
    check_refused(t, "DPTRAIN_PROCESSES", "2.0", "give a number from 1 to 256");
    check_refused(t, "DPTRAIN_RANK", "2", "give a number from 0 to 1");
    check_refused(t, "DPTRAIN_RANK", "-1", "give a number from 0 to 1");
    check_refused(t, "DPTRAIN_RANK", "", "DPTRAIN_RANK is not set");
    check_refused(t, "DPTRAIN_PROCESS_TIMEOUT", "0.1", "of seconds from 0.5 to 3600");
    check_refused(t, "DPTRAIN_JOIN_TIMEOUT", "nan", "of seconds from 1 to 86400");
    check_refused(t, "DPTRAIN_JOINERS", "255", "give a number from 0 to 254");
    check_refused(t, "DPTRAIN_JOIN", "10.1.0.2", "(DPTRAIN_JOIN) is \"10.1.0.2\": give HOST:PORT");
    check_refused(t, "DPTRAIN_SECRET_FILE", "", "DPTRAIN_SECRET_FILE is not set");
    check_refused(t, "DPTRAIN_SECRET_FILE", "nowhere", "cannot open nowhere: No such file");
    check_refused(t, "DPTRAIN_SECRET_FILE", ".", "is no file");
    write_secret(other_path, "fifteen bytes..\n", 0600);
    check_refused(t, "DPTRAIN_SECRET_FILE", other_path, "fewer than 16 bytes");
    write_secret(other_path, "long enough for a secret\n", 0640);
    check_refused(t, "DPTRAIN_SECRET_FILE", other_path, "run `chmod 600`");
    check_refused(t, "DPTRAIN_JOIN_TIMEOUT", "1", "process 0 is not reached at 127.0.0.1");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"settings", settings},
        {"gathers_sizes", gathers_sizes},
        {"ends_behind_settle", ends_behind_settle},
        {"order_of_messages", order_of_messages},
        {"mismatched_sizes", mismatched_sizes},
        {"two_deaths", two_deaths},
        {"death_in_mend", death_in_mend},
        {"death_in_settle", death_in_settle},
        {"standstill", standstill},
        {"end_behind_silence", end_behind_silence},
        {"broken_connection", broken_connection},
        {"given_up", given_up},
        {"strangers", strangers},
        {"evicted_joiner", evicted_joiner},
        {"one_more", one_more},
        {"deaths_of_guests", deaths_of_guests},
        {"guests_refused", guests_refused},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
