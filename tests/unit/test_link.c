/* Tests the link alone, with a transport of the test, whose messages arrive when the test says
   so. */
#include "base/clock.h"
#include "collective/link.h"
#include "collective/processes.h"
#include "dpt_error.h"
#include "harness.h"

#include <time.h>

enum { REQUESTS = 8 };

static const double hour = 3600;

typedef struct post {
    size_t n_started, n_closed, n_left;
    bool refuses; /* to start any */
    struct {
        bool arrived, fails, over;
        size_t n_looks;
    } requests[REQUESTS];
} post;

static post the_post;

static dpt_status post_open(void **self, size_t *rank, size_t *n_ranks, dpt_error *error)
{
    (void)error;
    *self = &the_post;
    *rank = 1;
    *n_ranks = 3;
    return DPT_OK;
}

static void post_close(void *self)
{
    post *p = self;
    p->n_closed++;
}

static dpt_status post_start(void *self, const dpt_message *messages, size_t n, void **request,
                             dpt_error *error)
{
    post *p = self;
    (void)messages;
    (void)n;
    if (p->refuses) return DPT_FAIL(error, DPT_E_IO, "the post is closed");
    *request = &p->requests[p->n_started++];
    return DPT_OK;
}

static dpt_status post_test(void *self, void *request, bool *done, dpt_error *error)
{
    post *p = self;
    const size_t i = (size_t)((char *)request - (char *)p->requests) / sizeof *p->requests;
    p->requests[i].n_looks++;
    *done = false;
    if (p->requests[i].over) return DPT_FAIL(error, DPT_E_INTERNAL, "%zu was freed", i);
    p->requests[i].over = p->requests[i].fails || p->requests[i].arrived;
    if (p->requests[i].fails) return DPT_FAIL(error, DPT_E_IO, "%zu is lost", i);
    *done = p->requests[i].arrived;
    return DPT_OK;
}

static void post_leave(void *self)
{
    post *p = self;
    p->n_left++;
}

static const dpt_transport transport = {
    .abi = DPT_TRANSPORT_ABI,
    .name = "post",
    .open = post_open,
    .close = post_close,
    .start = post_start,
    .test = post_test,
    .leave = post_leave,
};

static dpti_link open_link(test *t, double delay)
{
    dpti_link link = {.transport = &transport, .delay = delay, .n = 1};
    dpt_error error;
    the_post = (post){.n_started = 0};
    CHECK_OK(dpti_link_open(&link, &error));
    CHECK(link.rank == 1 && link.n == 3);
    return link;
}

static void *start(test *t, const dpti_link *link, bool receives)
{
    const dpt_message messages[] = {{.n_bytes = 1}, {.receive = receives, .n_bytes = 1}};
    dpt_error error;
    void *request = NULL;
    CHECK_OK(dpti_link_start(link, (dpti_messages){messages, 2}, &request, &error));
    return request;
}

static bool is_done(test *t, const dpti_link *link, void *request)
{
    dpt_error error = {.status = DPT_OK};
    bool done = false;
    if (!CHECK_OK(dpti_link_test(link, request, &done, &error))) FAIL("%s", error.message);
    return done;
}

static void without_a_delay(test *t)
{
    const dpti_link link = open_link(t, 0);
    void *first = start(t, &link, true), *second = start(t, &link, true);
    CHECK(first == &the_post.requests[0] && second == &the_post.requests[1]);
    the_post.requests[0].arrived = true;
    CHECK(!is_done(t, &link, second));
    CHECK(is_done(t, &link, first));
    CHECK(the_post.requests[0].n_looks == 1 && the_post.requests[1].n_looks == 1);
    dpti_link_close(&link);
    CHECK_SIZE(the_post.n_closed, 1);
}

static void what_arrives_is_held_back(test *t)
{
    const dpti_link link = open_link(t, hour);
    void *received = start(t, &link, true), *sent = start(t, &link, false);
    CHECK(!is_done(t, &link, sent));
    for (size_t i = 0; i < 2; i++)
        the_post.requests[i].arrived = true;
    CHECK(is_done(t, &link, sent));
    CHECK(!is_done(t, &link, received));
    CHECK(!is_done(t, &link, received));
    CHECK_SIZE(the_post.requests[0].n_looks, 2); /* at the sent one's, and none behind its end */
    dpti_link_abandon(&link);
    CHECK_SIZE(the_post.n_closed, 0);
    CHECK_SIZE(the_post.n_left, 1);
}

/* They arrive together, and whoever waits for one has waited for all. */
static void delays_overlap(test *t)
{
    static const double delay = 0.02;
    const dpti_link link = open_link(t, delay);
    void *requests[REQUESTS];
    for (size_t i = 0; i < REQUESTS; i++) {
        requests[i] = start(t, &link, true);
        the_post.requests[i].arrived = true;
    }
    CHECK(!is_done(t, &link, requests[3]));
    const double looked = dpti_seconds();
    while (dpti_seconds() - looked < delay)
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    for (size_t i = 0; i < REQUESTS; i++)
        CHECK(is_done(t, &link, requests[i])); /* at the first look at it */
    dpti_link_close(&link);
}

static void failures_are_told_of_their_own(test *t)
{
    const dpti_link link = open_link(t, hour);
    dpt_error error = {.status = DPT_OK};
    bool done = false;
    void *whole = start(t, &link, true), *lost = start(t, &link, true);
    the_post.requests[1].fails = true;
    CHECK(!is_done(t, &link, whole));
    CHECK_SIZE(the_post.requests[1].n_looks, 1);
    CHECK_STATUS(dpti_link_test(&link, lost, &done, &error), DPT_E_IO);
    CHECK_TEXT(error.message, "1 is lost");
    CHECK(!is_done(t, &link, whole));
    CHECK_SIZE(the_post.requests[1].n_looks, 1);
    the_post.refuses = true;
    CHECK_STATUS(
        dpti_link_start(&link, (dpti_messages){&(dpt_message){.n_bytes = 1}, 1}, &lost, &error),
        DPT_E_IO);
    CHECK_TEXT(error.message, "the post is closed");
    CHECK(!is_done(t, &link, whole));
    dpti_link_abandon(&link);
}

/* The other processes learn at once of a process that gives up, and not when it ends. */
static void giving_up_is_told(test *t)
{
    dpti_processes *processes = NULL;
    dpt_error error;
    the_post = (post){.n_started = 0};
    REQUIRE_OK(dpti_processes_start(&transport, 0, &processes, &error));
    dpti_processes_know(processes);
    dpti_processes_give_up(processes); /* all know of that failure */
    CHECK_SIZE(the_post.n_left, 0);
    dpti_processes_go_on(processes);
    dpti_processes_give_up(processes);
    CHECK_SIZE(the_post.n_left, 1);
    dpti_processes_give_up(processes);
    CHECK_SIZE(the_post.n_left, 1);
    dpti_processes_stop(processes);
    CHECK_SIZE(the_post.n_closed, 0);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"without a delay it is the transport", without_a_delay},
        {"what arrives is held back", what_arrives_is_held_back},
        {"delays overlap", delays_overlap},
        {"failures are told of their own", failures_are_told_of_their_own},
        {"giving up is told", giving_up_is_told},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
