/* Collectives over processes, chunk by chunk.  Each chunk travels on its route (route.h)
   independently, and chunks end in the order in which they began. */
#include "collective/pipeline.h"

#include "base/left_behind.h"
#include "base/memory.h"
#include "collective/route.h"
#include "dpt_error.h"

#include <stdlib.h>

/* A unit in flight. */
typedef struct inflight {
    dpti_unit unit;
    const dpti_route_steps *route;
    unsigned phase; /* that begins next */
    bool last;      /* of its collective */
    bool over;
    void *request;
} inflight;

_Static_assert(DPTI_CHANNEL_UNITS + DPTI_MOST_WINDOW <= DPT_TRANSPORT_CHANNELS,
               "every unit has a channel");

struct dpti_pipeline {
    dpti_link link;
    dpti_travel travel;
    float *staging;        /* (window, n_staged, DPTI_CHUNK) */
    float *reserved;       /* the same, to be */
    dpt_message *messages; /* (dpti_most_messages) */
    inflight slots[DPTI_MOST_WINDOW];
    size_t first, n_under_way;     /* flights first, first + 1, ... modulo the window */
    size_t collective, next_chunk; /* of the unit that is next to start */
};

/* ---- How they travel ------------------------------------------------------------------------- */

/* The most staging memory.  With many processes a wide window would take more. */
enum { MOST_STAGED = 256 /* chunks: 64 MiB */ };

static size_t n_staged(const dpti_pipeline *p, dpti_route route)
{
    /* Packed ones, and sums along the tree, are direct always. */
    const size_t direct = dpti_route_direct.n_staged(p->link.n);
    const size_t ring = dpti_route_ring.n_staged(p->link.n);
    return route == DPTI_ROUTE_RING && ring > direct ? ring : direct;
}

static const dpti_route_steps *route_of(const dpti_pipeline *p, const dpti_collective *what)
{
    const bool ring = p->travel.route == DPTI_ROUTE_RING && !dpti_is_packed(what) && !what->tree;
    return ring ? &dpti_route_ring : &dpti_route_direct;
}

bool dpti_pipeline_reserve(dpti_pipeline *pipeline, dpti_travel *travel)
{
    dpti_pipeline *p = pipeline;
    const size_t each = n_staged(p, travel->route);
    size_t window = travel->window;
    if (window < DPTI_LEAST_WINDOW) window = DPTI_LEAST_WINDOW;
    if (window > DPTI_MOST_WINDOW) window = DPTI_MOST_WINDOW;
    while (window > DPTI_LEAST_WINDOW && window * each > MOST_STAGED)
        window--;
    travel->window = window;
    p->reserved = dpti_alloc_aligned((window * each * DPTI_CHUNK + 1) * sizeof *p->reserved);
    return p->reserved != NULL;
}

void dpti_pipeline_take(dpti_pipeline *pipeline, const dpti_travel *travel)
{
    dpti_pipeline *p = pipeline;
    if (travel) {
        free(p->staging);
        p->staging = p->reserved;
        p->travel = *travel;
        p->first = 0;
    } else {
        free(p->reserved);
    }
    p->reserved = NULL;
}

const dpti_travel *dpti_pipeline_travel(const dpti_pipeline *pipeline)
{
    return &pipeline->travel;
}

dpti_pipeline *dpti_pipeline_create(const dpti_link *link)
{
    dpti_travel travel = {.route = DPTI_ROUTE_DIRECT, .window = DPTI_LEAST_WINDOW};
    dpti_pipeline *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->link = *link;
    p->messages = calloc(dpti_most_messages(link->n) + 1, sizeof *p->messages);
    if (!p->messages || !dpti_pipeline_reserve(p, &travel)) {
        dpti_pipeline_destroy(p);
        return NULL;
    }
    dpti_pipeline_take(p, &travel);
    return p;
}

void dpti_pipeline_destroy(dpti_pipeline *pipeline)
{
    if (!pipeline) return;
    /* A transport that has failed keeps its requests and may still write to their memory. */
    for (size_t i = 0; i < DPTI_MOST_WINDOW; i++)
        if (pipeline->slots[i].request) {
            dpti_leave_behind(pipeline);
            return;
        }
    free(pipeline->staging);
    free(pipeline->messages);
    free(pipeline);
}

/* ---- Units ----------------------------------------------------------------------------------- */

static dpt_status start(dpti_pipeline *p, inflight *f, dpt_error *error)
{
    return dpti_link_start(&p->link, (dpti_messages){p->messages, f->unit.n_messages}, &f->request,
                           error);
}

static dpt_status test(dpti_pipeline *p, inflight *f, bool *done, dpt_error *error)
{
    void *request = f->request;
    f->request = NULL;
    const dpt_status status = dpti_link_test(&p->link, request, done, error);
    if (status == DPT_OK && !*done) f->request = request;
    return status;
}

/* Advances a unit until it has messages to wait for, or is over. */
static dpt_status go_on(dpti_pipeline *p, inflight *f, dpt_error *error)
{
    f->unit.n_messages = 0;
    while (f->unit.n_messages == 0 && !f->over)
        f->over = !f->route->begin(&f->unit, f->phase++);
    return f->unit.n_messages > 0 ? start(p, f, error) : DPT_OK;
}

static dpt_status start_next(dpti_pipeline *p, const dpti_collective *what, dpt_error *error)
{
    const size_t place = (p->first + p->n_under_way) % p->travel.window;
    inflight *f = &p->slots[place];
    *f = (inflight){
        .route = route_of(p, what),
        .unit = {.link = &p->link,
                 .what = what,
                 .chunk = p->next_chunk++,
                 .channel = DPTI_CHANNEL_UNITS + (unsigned)place,
                 .staging = p->staging + place * n_staged(p, p->travel.route) * DPTI_CHUNK,
                 .messages = p->messages}};
    p->n_under_way++;
    f->last = p->next_chunk == f->route->n_chunks(&p->link, what);
    if (f->last) {
        p->collective++;
        p->next_chunk = 0;
    }
    return go_on(p, f, error);
}

/* Removes the oldest units that are over. */
static void retire(dpti_pipeline *p, size_t *n_over)
{
    while (p->n_under_way > 0 && p->slots[p->first].over) {
        const inflight *f = &p->slots[p->first];
        if (f->last && f->unit.what->finish) f->unit.what->finish(f->unit.what->user);
        if (f->last) ++*n_over;
        p->first = (p->first + 1) % p->travel.window;
        p->n_under_way--;
    }
}

/* Makes one step of one unit, so that the caller is never kept long. */
static dpt_status advance(dpti_pipeline *p, bool *moved, dpt_error *error)
{
    for (size_t i = 0; i < p->n_under_way && !*moved; i++) {
        inflight *f = &p->slots[(p->first + i) % p->travel.window];
        if (f->over) continue;
        DPT_TRY(test(p, f, moved, error));
        if (*moved) DPT_TRY(go_on(p, f, error));
    }
    return DPT_OK;
}

dpt_status dpti_pipeline_look(dpti_pipeline *pipeline, dpti_ring *ring, bool *moved,
                              dpt_error *error)
{
    dpti_pipeline *p = pipeline;
    *moved = false;
    DPT_TRY(advance(p, moved, error));
    retire(p, &ring->n_over);
    if (p->n_under_way == p->travel.window || p->collective == ring->n_started) return DPT_OK;
    DPT_TRY(start_next(p, &ring->items[p->collective % ring->n_items], error));
    retire(p, &ring->n_over);
    *moved = true;
    return DPT_OK;
}

void dpti_pipeline_end(dpti_pipeline *pipeline)
{
    dpti_pipeline *p = pipeline;
    dpt_error error;
    for (size_t i = 0; i < DPTI_MOST_WINDOW; i++)
        for (bool done = false; p->slots[i].request && !done;)
            if (test(p, &p->slots[i], &done, &error) != DPT_OK) break;
}
