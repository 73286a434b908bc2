/* What the first process of a job sends to a process that comes, behind the handshake: this struct,
   then the addresses of all places, then the text.  A struct of a fixed size; the numbers are
   compared with bounds, and nothing is parsed. */
#ifndef DPT_TCP_DOOR_H
#define DPT_TCP_DOOR_H

#include "job.h"
#include "join_parts.h"

typedef struct tcp_welcome {
    uint32_t n, n_first; /* places; processes at the start */
    uint32_t place;      /* of the process that comes */
    uint32_t first;      /* of the process that sends this */
    uint32_t timeout;    /* DPTRAIN_PROCESS_TIMEOUT in milliseconds */
    uint32_t n_text;     /* bytes of the text, without an end */
    tcp_set members;
    tcp_set used; /* places of all processes that were members at any time */
} tcp_welcome;

_Static_assert(sizeof(tcp_welcome) == 88, "what travels has no padding");

#endif
