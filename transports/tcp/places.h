/* The connections to a process, and where it listens. */
#ifndef DPT_TCP_PLACES_H
#define DPT_TCP_PLACES_H

#include <stdint.h>

/* The connections to one process; -1: none. */
typedef struct tcp_sockets {
    int control, data;
} tcp_sockets;

/* The address of a process as it travels. */
typedef struct tcp_place {
    uint8_t bytes[16];
    uint32_t family; /* 4 or 6; 0: not known */
    uint32_t port;
} tcp_place;

#endif
