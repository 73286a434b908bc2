/* The wire to the other processes: a transport that was opened, and perhaps a delay, to study slow
   networks where there is a fast one.  What arrives is told of so much later, as if the line were
   longer; that takes none of its rate, and delays of what is under way at the same time overlap.

   All functions are for the communication thread, unless they say otherwise. */
#ifndef DPTI_LINK_H
#define DPTI_LINK_H

#include "collective/transport.h"

typedef struct dpti_line dpti_line;

/* May be copied. */
typedef struct dpti_link {
    const dpt_transport *transport;
    double delay; /* seconds; 0: none */
    /* From opening on. */
    void *self;
    size_t rank, n;
    dpti_line *line; /* what is under way; NULL without a delay, when nobody needs to know */
} dpti_link;

/* Joins by wire->transport, as its open says, and fills in the rest; a failure leaves it as it
   was. */
DPT_CHECK_RESULT dpt_status dpti_link_open(dpti_link *link, dpt_error *error);
/* Leaves in good order; nothing is under way. */
void dpti_link_close(const dpti_link *link);
/* [any thread, none of whose calls comes any more] Stays as it is, as long as the process: where
   others may never leave, and requests may still write where they point. */
void dpti_link_abandon(const dpti_link *link);

/* As the transport's.  With a delay, done is a request of which anything is received `delay` after
   the first look, at this request or another, at which all of it was there; a failure is told at
   once. */
DPT_CHECK_RESULT dpt_status dpti_link_start(const dpti_link *link, const dpt_message *messages,
                                            size_t n, void **request, dpt_error *error);
DPT_CHECK_RESULT dpt_status dpti_link_test(const dpti_link *link, void *request, bool *done,
                                           dpt_error *error);

#endif
