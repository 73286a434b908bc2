/* The link: a transport, and requests whose ends are reported later if there is a delay. */
#include "collective/link.h"

#include "base/clock.h"
#include "base/left_behind.h"
#include "dpt_error.h"

#include <stdlib.h>

/* A request on a link with a delay. */
typedef struct held {
    struct held *next;
    double delay;
    void *request;     /* the transport's; NULL: it is over */
    double over;       /* since then, */
    dpt_status status; /* with this */
    dpt_error error;
} held;

struct dpti_line {
    held *first;
};

dpt_status dpti_link_open(dpti_link *link, dpt_error *error)
{
    dpti_link w = *link;
    if (w.delay > 0 && !(w.line = calloc(1, sizeof *w.line)))
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a transport");
    const dpt_status status = w.transport->open(&w.self, &w.rank, &w.n, error);
    if (status == DPT_OK)
        *link = w;
    else
        free(w.line);
    return status;
}

void dpti_link_close(const dpti_link *link)
{
    link->transport->close(link->self);
    free(link->line);
}

void dpti_link_leave(const dpti_link *link)
{
    const dpt_transport *t = link->transport;
    if (t->leave) t->leave(link->self);
}

void dpti_link_abandon(const dpti_link *link)
{
    dpti_link_leave(link);
    dpti_leave_behind(link->self);
    if (link->line) dpti_leave_behind(link->line);
}

bool dpti_link_survives(const dpti_link *link)
{
    const dpt_transport *t = link->transport;
    return t->survives && t->survives(link->self);
}

double dpti_link_timeout(const dpti_link *link)
{
    const dpt_transport *t = link->transport;
    return dpti_link_survives(link) && t->timeout ? t->timeout(link->self) : 0;
}

dpt_status dpti_link_settle(const dpti_link *link, dpt_error *error)
{
    return link->transport->settle(link->self, error);
}

dpt_status dpti_link_mend(dpti_link *link, dpt_error *error)
{
    const dpt_transport *t = link->transport;
    const bool admits = link->admits;
    link->admits = false;
    return admits ? t->guests->admit(link->self, &link->rank, &link->n, error)
                  : t->mend(link->self, &link->rank, &link->n, error);
}

static bool any_received(const dpt_message *messages, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (messages[i].receive) return true;
    return false;
}

dpt_status dpti_link_start(const dpti_link *link, dpti_messages messages, void **request,
                           dpt_error *error)
{
    const dpti_link *w = link;
    if (!w->line) return w->transport->start(w->self, messages.items, messages.n, request, error);
    held *h = calloc(1, sizeof *h);
    if (!h) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for messages");
    const dpt_status status =
        w->transport->start(w->self, messages.items, messages.n, &h->request, error);
    if (status != DPT_OK) {
        free(h);
        return status;
    }
    h->delay = any_received(messages.items, messages.n) ? w->delay : 0;
    h->next = w->line->first;
    w->line->first = h;
    *request = h;
    return DPT_OK;
}

static void look(const dpti_link *w, held *h)
{
    bool done = false;
    if (!h->request) return;
    h->status = w->transport->test(w->self, h->request, &done, &h->error);
    if (h->status == DPT_OK && !done) return;
    h->request = NULL;
    h->over = dpti_seconds();
}

static void let_go(dpti_line *line, held *h)
{
    held **link = &line->first;
    while (*link != h)
        link = &(*link)->next;
    *link = h->next;
    free(h);
}

dpt_status dpti_link_test(const dpti_link *link, void *request, bool *done, dpt_error *error)
{
    const dpti_link *w = link;
    held *h = request;
    if (!w->line) return w->transport->test(w->self, request, done, error);
    /* Looks at all requests.  A caller may wait for one of several only, and the delays of the
       others would then begin when that one is over. */
    for (held *other = w->line->first; other; other = other->next)
        look(w, other);
    *done = !h->request && (h->status != DPT_OK || dpti_seconds() - h->over >= h->delay);
    if (!*done) return DPT_OK;
    const dpt_status status = h->status;
    if (status != DPT_OK) *error = h->error;
    let_go(w->line, h);
    return status;
}
