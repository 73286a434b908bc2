/* Timing the link between processes (link_probe.h). */
#include "train/exchange/link_probe.h"
#include "context/context.h"
#include "context/sized.h"
#include "device/communicator.h"

#include "base/clock.h"
#include "base/left_behind.h"
#include "collective/route.h"
#include "dpt_error.h"
#include "train/components/bandwidth_model.h"
#include "train/exchange/exchange.h"
#include "train/peers/peers.h"
#include "train/state/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of one sum, and of what is repeated: so that a slow link is not timed for long. */
static const double sum_seconds = 0.04, repeated_seconds = 0.25;
enum {
    MOST_REPEATS = 3,
    WINDOW = DPTI_LINK_PROBE_MOST / (DPTI_CHUNK * 4), /* chunks: what is summed does not fill it */
};

/* What sums are made of, in every process, and where a failure is told. */
typedef struct sums {
    dpti_processes *p;
    dpt_error *error;
    float *data;       /* (DPTI_LINK_PROBE_MOST bytes) */
    bool *contributes; /* (processes) all of them */
} sums;

static bool allocate(sums *s)
{
    const size_t n = dpti_processes_count(s->p);
    s->data = calloc(1, DPTI_LINK_PROBE_MOST);
    s->contributes = malloc(n * sizeof *s->contributes);
    for (size_t r = 0; s->contributes && r < n; r++)
        s->contributes[r] = true;
    return s->data && s->contributes;
}

static dpt_status sum_once(const sums *s, size_t n_bytes, double *seconds)
{
    const dpti_collective sum = {.kind = DPTI_ALL_REDUCE,
                                 .data = s->data,
                                 .count = n_bytes / sizeof *s->data,
                                 .contributes = s->contributes};
    const double began = dpti_seconds();
    dpti_processes_start_collective(s->p, &sum);
    DPT_TRY(dpti_processes_finish_collectives(s->p, s->error));
    *seconds = dpti_seconds() - began;
    return DPT_OK;
}

/* Of n times the slowest process's, which all get: none may decide anything by its own clock. */
static dpt_status take_slowest(const sums *s, double *seconds, size_t n)
{
    dpti_gathered all = {.data = NULL};
    DPT_TRY(
        dpti_processes_gather(s->p, (dpti_bytes){seconds, n * sizeof *seconds}, &all, s->error));
    const double *of = (const double *)(const void *)all.data;
    for (size_t i = 0; i < n * dpti_processes_count(s->p); i++)
        seconds[i % n] = fmax(seconds[i % n], of[i]);
    dpti_gathered_free(&all);
    return DPT_OK;
}

static size_t repeats(double seconds)
{
    if (!(seconds * MOST_REPEATS > repeated_seconds)) return MOST_REPEATS;
    return seconds * 2 > repeated_seconds ? 1 : 2;
}

/* The least times of sums, by routes and sizes. */
enum { SMALL, LARGE, SIZES, ROUTES = 2 };
typedef double times[ROUTES][SIZES];

/* One more of each size by this route. */
static dpt_status time_more(const sums *s, dpti_route route, const size_t n_bytes[SIZES],
                            times least)
{
    dpti_travel travel = {.route = route, .window = WINDOW};
    DPT_TRY(dpti_processes_set_travel(s->p, &travel, s->error));
    for (size_t k = 0; k < SIZES; k++) {
        double once;
        DPT_TRY(sum_once(s, n_bytes[k], &once));
        least[route][k] = fmin(least[route][k], once);
    }
    return DPT_OK;
}

/* The slowest process's time. */
static dpt_status time_one(const sums *s, size_t n_bytes, double *seconds)
{
    DPT_TRY(sum_once(s, n_bytes, seconds));
    return take_slowest(s, seconds, 1);
}

/* How much to sum, and what that takes: more and more, until it takes long enough. */
static dpt_status find_bytes(const sums *s, size_t *n_bytes, double *seconds)
{
    double small;
    size_t next = DPTI_LINK_PROBE_LEAST;
    dpti_travel travel = {.route = DPTI_ROUTE_DIRECT, .window = WINDOW};
    DPT_TRY(dpti_processes_set_travel(s->p, &travel, s->error));
    DPT_TRY(time_one(s, DPTI_LINK_PROBE_SMALL, &small)); /* warms up */
    DPT_TRY(time_one(s, DPTI_LINK_PROBE_SMALL, &small));
    for (*n_bytes = 0; next > *n_bytes;) {
        *n_bytes = next;
        DPT_TRY(time_one(s, next, seconds));
        next = dpti_bandwidth_more_bytes(next, *seconds - small, sum_seconds);
    }
    return DPT_OK;
}

/* Both routes in turns; of two processes the ring has nothing that the direct one has not.  A
   packed sum knows the direct one alone, and sends fewer bytes than what is timed. */
static dpt_status time_routes(const sums *s, const dpti_packing *packing, dpti_link_probe *out)
{
    times least = {{INFINITY, INFINITY}, {INFINITY, INFINITY}};
    const size_t n_processes = dpti_processes_count(s->p);
    const size_t n_routes = n_processes > 2 && !packing ? ROUTES : 1;
    size_t n_bytes[SIZES] = {DPTI_LINK_PROBE_SMALL};
    double seconds;
    DPT_TRY(find_bytes(s, &n_bytes[LARGE], &seconds));
    const size_t n_repeats = repeats(seconds * (double)n_routes);
    for (size_t i = 0; i < n_repeats; i++)
        for (size_t r = 0; r < n_routes; r++)
            DPT_TRY(time_more(s, (dpti_route)r, n_bytes, least));
    DPT_TRY(take_slowest(s, &least[0][0], (size_t)ROUTES * SIZES));
    const dpti_route route =
        dpti_bandwidth_route(least[DPTI_ROUTE_DIRECT][LARGE], least[DPTI_ROUTE_RING][LARGE]);
    const dpti_bandwidth_model link =
        dpti_bandwidth_between(least[route][SMALL], n_bytes[LARGE], least[route][LARGE]);
    const double part = packing ? (double)packing->n_bytes(DPTI_CHUNK) / (DPTI_CHUNK * 4.0) : 1;
    const dpti_bandwidth_model travels = {.alpha = link.alpha, .beta = link.beta * part};
    dpti_travel travel = {.route = route,
                          .window = dpti_bandwidth_window(travels, n_processes, route)};
    DPT_TRY(dpti_processes_set_travel(s->p, &travel, s->error));
    *out = (dpti_link_probe){.done = true, .link = link, .travel = travel};
    return DPT_OK;
}

/* In all processes alike: none begins that another one has no memory for. */
static dpt_status measure(dpti_processes *p, const dpti_packing *packing, dpti_link_probe *out,
                          dpt_error *error)
{
    sums s = {.p = p, .error = error};
    dpt_status status =
        allocate(&s) ? DPT_OK
                     : DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to time sums over processes");
    status = dpti_processes_agree(p, status, error);
    if (status == DPT_OK && (status = time_routes(&s, packing, out)) != DPT_OK) {
        dpti_leave_behind(s.data); /* a transport that has failed may still write there */
        s.data = NULL;
    }
    free(s.contributes);
    free(s.data);
    return status;
}

/* Whether gradients will travel by the transport, and are enough for there to be a choice. */
static bool is_worth_it(const dpt_trainer *t)
{
    const bool among_devices =
        !dpti_packs(t) && dpti_peers_are_alike(t) && dpti_has_collectives(t->workers[0].device);
    return !among_devices &&
           t->model->flat_weights * sizeof(float) > (size_t)DPTI_BANDWIDTH_LEAST_BUCKET;
}

/* As the first process says. */
static dpt_status agree_whether(dpt_trainer *t, bool *wanted)
{
    const bool mine = is_worth_it(t);
    dpti_gathered all = {.data = NULL};
    DPT_TRY(dpti_peers_all_gather(t, DPT_OK, (dpti_bytes){&mine, sizeof mine}, &all));
    memcpy(wanted, all.data, sizeof *wanted);
    dpti_gathered_free(&all);
    return DPT_OK;
}

dpt_status dpti_link_probe_processes(dpt_trainer *trainer, bool sizes)
{
    dpt_trainer *t = trainer;
    dpt_error error = {.status = DPT_OK};
    bool wanted = false;
    if (!t->processes || dpti_processes_count(t->processes) == 1) return DPT_OK;
    DPT_TRY(agree_whether(t, &wanted));
    if (!wanted) return DPT_OK;
    if (measure(t->processes, dpti_packing_of(t->compress), &t->exchange.link_probe, &error) !=
        DPT_OK)
        return dpti_context_fail(t->context, NULL, &error);
    if (sizes)
        t->program.buckets =
            dpti_bandwidth_buckets(t->exchange.link_probe.link, t->model->flat_weights);
    return DPT_OK;
}

dpt_status dpt_processes_measure(dpt_context *context, dpt_link *out)
{
    dpti_processes *p = context->processes;
    dpt_error error = {.status = DPT_OK};
    dpti_link_probe link_probe = {.done = false};
    if (out) DPT_TRY(dpti_check_sized(context, "dpt_link", out));
    if (p && dpti_processes_count(p) > 1) {
        dpti_processes_go_on(p);
        if (measure(p, NULL, &link_probe, &error) != DPT_OK)
            return dpti_context_fail(context, NULL, &error);
    }
    if (!out) return DPT_OK;
    const dpt_link link = {.size = sizeof link,
                           .alpha = link_probe.link.alpha,
                           .beta = link_probe.link.beta,
                           .route = dpti_route_name(link_probe.travel.route),
                           .window = link_probe.travel.window};
    (void)dpti_give_sized(&link, sizeof link, out);
    return DPT_OK;
}

const dpti_link_probe *dpti_link_probe_of(const dpt_trainer *trainer)
{
    return &trainer->exchange.link_probe;
}

const char *dpti_route_name(dpti_route route)
{
    return route == DPTI_ROUTE_RING ? "ring" : "direct";
}

void dpti_link_probe_words(const dpt_trainer *trainer, char *out, size_t n_bytes)
{
    const dpti_link_probe *p = &trainer->exchange.link_probe;
    const dpti_bucket_sizes *sizes = &trainer->program.buckets;
    char buckets[96] = "";
    out[0] = '\0';
    if (!p->done) return;
    if (sizes->first > 0)
        (void)snprintf(buckets, sizeof buckets, ", first bucket %zu KiB, others %zu KiB",
                       sizes->first * sizeof(float) / 1024, sizes->others * sizeof(float) / 1024);
    (void)snprintf(out, n_bytes,
                   "a sum over processes takes %.3g ms plus %.3g ms per MB: route %s, %zu chunks "
                   "at a time%s",
                   1e3 * p->link.alpha, 1e9 * p->link.beta, dpti_route_name(p->travel.route),
                   p->travel.window, buckets);
}
