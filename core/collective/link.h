/* The link to the other processes: an open transport, and perhaps an injected delay, which imitates
   a slow network on a fast one.  With a delay, an arrival is reported so much later, as if the
   cable were longer.  The delay does not reduce the data rate, and the delays of messages in flight
   at the same time overlap.

   All functions are called by the communication thread, unless their comments say otherwise. */
#ifndef DPTI_LINK_H
#define DPTI_LINK_H

#include "collective/transport.h"

typedef struct dpti_line dpti_line;

/* May be copied. */
typedef struct dpti_link {
    const dpt_transport *transport;
    double delay; /* seconds; 0: none */
    /* Set by dpti_link_open: */
    void *self;
    size_t rank, n;
    bool admits;     /* the next dpti_link_mend is `admit` of the transport */
    dpti_line *line; /* requests in flight; NULL without a delay */
} dpti_link;

/* Joins the job by link->transport and fills in the rest of the struct.  Fails as the transport's
   `open` does; the struct is unchanged then. */
DPT_CHECK_RESULT dpt_status dpti_link_open(dpti_link *link, dpt_error *error);
/* Leaves the job in good order.  Nothing is in flight. */
void dpti_link_close(const dpti_link *link);
/* Tells the other processes that this one takes no part any more, if the transport can.  Any thread
   may call it. */
void dpti_link_leave(const dpti_link *link);
/* Leaves, and keeps the link's memory for as long as the process runs: other processes may never
   leave, and requests may still write to the memory that they point to.  Any thread may call this,
   if no other call of the link follows. */
void dpti_link_abandon(const dpti_link *link);

/* Whether the job goes on when a process has died; and as `settle` and `mend` of the transport
   (transport.h), if it does.  mend changes rank and n of this link, and not those of its copies. */
bool dpti_link_survives(const dpti_link *link);
double dpti_link_timeout(const dpti_link *link); /* 0 as well without `timeout` */
DPT_CHECK_RESULT dpt_status dpti_link_settle(const dpti_link *link, dpt_error *error);
DPT_CHECK_RESULT dpt_status dpti_link_mend(dpti_link *link, dpt_error *error);

/* Messages that are sent and received at the same time. */
typedef struct dpti_messages {
    const dpt_message *items; /* (n) */
    size_t n;
} dpti_messages;

/* As `start` and `test` of the transport (transport.h).  With a delay, a request that receives
   anything is done `delay` seconds after the first look, at this request or another, that found all
   of it there.  A failure is reported at once. */
DPT_CHECK_RESULT dpt_status dpti_link_start(const dpti_link *link, dpti_messages messages,
                                            void **request, dpt_error *error);
DPT_CHECK_RESULT dpt_status dpti_link_test(const dpti_link *link, void *request, bool *done,
                                           dpt_error *error);

#endif
