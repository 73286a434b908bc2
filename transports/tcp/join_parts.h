/* What join.c shares with door.c and enter.c: connections whose other side has not proved yet that
   it knows the secret, and the two sides of the handshake. */
#ifndef DPT_TCP_JOIN_PARTS_H
#define DPT_TCP_JOIN_PARTS_H

#include "handshake.h"
#include "places.h"

/* Connections whose proof is awaited, and how long it is awaited. */
enum { MOST_GUESTS = 64, GUEST_SECONDS = 5, TCP_LOOK_MILLISECONDS = 100 };

/* A connection that somebody has made to this process. */
typedef struct guest {
    int socket; /* -1: none */
    double since;
    size_t got; /* bytes of what is awaited: the hello, then the claim */
    bool greeted;
    tcp_address address;
    tcp_nonces nonces;
    tcp_claim claim;
} guest;

/* Who decides about claims once the job runs.  `seat` takes the socket of a guest whose claim was
   accepted, and sets guest->socket to -1. */
typedef struct tcp_host {
    void *user;
    tcp_verdict (*judge)(void *user, const tcp_claim *claim, uint32_t *value);
    void (*seat)(void *user, guest *guest);
} tcp_host;

typedef struct join {
    const tcp_settings *settings;
    const tcp_host *host; /* NULL: while the processes of the start join */
    tcp_sockets *sockets; /* (n) */
    tcp_place *places;    /* (n) */
    int listener;
    double deadline, told_waiting;
    bool seated; /* the table is known: who leaves now is not waited for again */
    size_t n_refusals;
    guest guests[MOST_GUESTS];
} join;

/* A process to connect to. */
typedef struct target {
    tcp_address address;
    char text[TCP_ADDRESS_TEXT];
    size_t rank;
    uint32_t kind;   /* TCP_CONTROL, TCP_DATA or TCP_ENTER */
    uint32_t port;   /* where this process listens */
    uint32_t visit;  /* as a tcp_claim has it */
    double deadline; /* of the handshake */
    bool connected;  /* of dpt_tcp_reach_once: a program has accepted the connection */
} target;

/* Makes the struct without a listener and without tables.  Its deadline is that of joining. */
void dpt_tcp_join_begin(const tcp_settings *settings, join *j);
/* Closes the listener and the guests' connections. */
void dpt_tcp_join_end(join *j);
/* Waits a moment for guests and hears them. */
void dpt_tcp_look_at_guests(join *j);
/* Sets j->listener.  DPT_E_IO. */
DPT_CHECK_RESULT dpt_status dpt_tcp_listen_at(join *j, const tcp_address *address,
                                              dpt_error *error);
/* The same at the address that this host has towards j->settings->address; *port becomes the port.
 */
DPT_CHECK_RESULT dpt_status dpt_tcp_listen_beside(join *j, uint32_t *port, dpt_error *error);
/* Connects and makes the handshake, once; each of the two may take GUEST_SECONDS.  *out becomes the
   socket.  DPT_E_IO; DPT_E_INVALID if this process is refused; DPT_E_STATE if it is to try again
   later. */
DPT_CHECK_RESULT dpt_status dpt_tcp_reach_once(const join *j, target *to, int *out,
                                               dpt_error *error);
/* Returns false if the place holds no address. */
bool dpt_tcp_place_read(const join *j, const tcp_place *from, tcp_address *out);
void dpt_tcp_place_write(tcp_place *out, const tcp_address *address, uint32_t port);
/* Sends or receives all of the bytes before the deadline.  Returns 0, or the number of the error;
   ECONNRESET at the end of the connection. */
int dpt_tcp_send_bytes(double deadline, int socket, const void *data, size_t n_bytes);
int dpt_tcp_receive_bytes(double deadline, int socket, void *data, size_t n_bytes);

/* ---- answers.c: what the process that connects is told, in its own words ------------------------
 */

/* DPT_OK if the answer is TCP_ACCEPTED. */
DPT_CHECK_RESULT dpt_status dpt_tcp_tell_answer(const tcp_settings *settings,
                                                const tcp_answer *answer, const target *to,
                                                dpt_error *error);
/* The connection has failed in the handshake: the number of the error. */
dpt_status dpt_tcp_tell_code(int code, const target *to, dpt_error *error);
/* What listens does not speak as dptrain does. */
dpt_status dpt_tcp_tell_program(const tcp_settings *settings, const target *to, dpt_error *error);

#endif
