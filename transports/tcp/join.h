/* Connects the processes of a job: two connections between any two of them. */
#ifndef DPT_TCP_JOIN_H
#define DPT_TCP_JOIN_H

#include "places.h"
#include "settings.h"

/* What is kept for processes that come later (door.c); without any, listener -1 and places NULL. */
typedef struct tcp_door_parts {
    int listener;
    tcp_place *places; /* (n + n_joiners) where processes listen; this process's own is not known */
} tcp_door_parts;

/* Waits until all processes have joined, settings->join_timeout seconds at most.  Who does not
   belong to the job is refused, with a line on stderr.  sockets (n); those of this process are
   -1.  The caller closes and frees *parts.  On failure all are closed.  DPT_E_IO, DPT_E_INVALID,
   DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpt_tcp_join(const tcp_settings *settings, tcp_sockets *sockets,
                                         tcp_door_parts *parts, dpt_error *error);

double dpt_tcp_seconds(void); /* since the machine was started, with the time that it slept */

#endif
