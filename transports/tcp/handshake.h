/* How two processes prove to each other that they know the secret.

   1. The process that connects sends a tcp_hello: version and a random number, the nonce.
   2. The process that listens answers with a tcp_hello of its own.
   3. The first sends a tcp_claim: who it is, with a proof.
   4. The second checks the proof, and answers with a tcp_answer, which has a proof too.

   A proof is the HMAC-SHA256 (RFC 2104), with the secret as key, of a label, both nonces and the
   fields.  The labels differ, so neither side can send back what the other one sent.  The nonces
   are new for each connection, so no proof is valid twice.  The process that listens proves nothing
   to a stranger.

   All of these are structs of a fixed size.  Nothing is parsed: before the proof is checked, only
   the magic and the version are compared with constants.  A fuzzer would find nothing here. */
#ifndef DPT_TCP_HANDSHAKE_H
#define DPT_TCP_HANDSHAKE_H

#include "settings.h"

enum { TCP_VERSION = 3, TCP_NONCE_BYTES = 32, TCP_PROOF_BYTES = 32 };

/* What a connection is for.  TCP_ENTER is the first connection of a process that comes to a job
   that runs (enter.c); it becomes the control connection. */
enum { TCP_CONTROL = 0, TCP_DATA = 1, TCP_ENTER = 2 };

typedef struct tcp_hello {
    char magic[8];
    uint32_t version; /* a machine of another byte order has another number */
    uint32_t zero;
    uint8_t nonce[TCP_NONCE_BYTES];
} tcp_hello;

typedef struct tcp_claim {
    uint32_t n, rank; /* of the process that connects */
    uint32_t to;      /* the process that it means to reach */
    uint32_t kind;    /* TCP_CONTROL, TCP_DATA or TCP_ENTER */
    uint32_t port;    /* where it listens */
    uint32_t timeout; /* DPTRAIN_PROCESS_TIMEOUT in milliseconds */
    uint32_t joiners; /* DPTRAIN_JOINERS */
    uint32_t visit;   /* of a process that comes: a random number, new for each attempt; else 0 */
    uint8_t proof[TCP_PROOF_BYTES];
} tcp_claim;

/* What the process that listens makes of a claim. */
typedef enum tcp_verdict {
    TCP_ACCEPTED,
    TCP_WRONG_SECRET,
    TCP_WRONG_COUNT,   /* `value` is the right number of processes */
    TCP_WRONG_RANK,    /* not below the number of processes, or that of the one that listens */
    TCP_TWICE,         /* this rank is there already */
    TCP_WRONG_TIMEOUT, /* `value` is that of the process that listens, in milliseconds */
    TCP_OTHER_PLACE,   /* another process listens there; `value` is its rank */
    TCP_WRONG_JOINERS, /* `value` is DPTRAIN_JOINERS of the process that listens */
    TCP_NO_PLACE,      /* as many processes as DPTRAIN_JOINERS says have come; `value` is that */
    TCP_BUSY,          /* the job does not train yet, or another process comes: try again */
} tcp_verdict;

typedef struct tcp_answer {
    uint32_t verdict, value;
    uint8_t proof[TCP_PROOF_BYTES]; /* zeros for TCP_WRONG_SECRET */
} tcp_answer;

_Static_assert(sizeof(tcp_hello) == 48 && sizeof(tcp_claim) == 64 && sizeof(tcp_answer) == 40,
               "what travels has no padding");

/* The timeout as claims have it. */
uint32_t dpt_tcp_timeout_ms(const tcp_settings *settings);

/* The two hellos of a connection. */
typedef struct tcp_nonces {
    tcp_hello from_client, from_server;
} tcp_nonces;

/* Fills in a hello.  DPT_E_IO without random numbers. */
DPT_CHECK_RESULT dpt_status dpt_tcp_hello_make(tcp_hello *out, dpt_error *error);
/* Whether the bytes are a hello of any version. */
bool dpt_tcp_hello_is(const tcp_hello *hello);

void dpt_tcp_claim_prove(const tcp_settings *settings, const tcp_nonces *nonces, tcp_claim *claim);
bool dpt_tcp_claim_holds(const tcp_settings *settings, const tcp_nonces *nonces,
                         const tcp_claim *claim);
/* `claim` is the one that is answered. */
void dpt_tcp_answer_prove(const tcp_settings *settings, const tcp_nonces *nonces,
                          const tcp_claim *claim, tcp_answer *answer);
bool dpt_tcp_answer_holds(const tcp_settings *settings, const tcp_nonces *nonces,
                          const tcp_claim *claim, const tcp_answer *answer);

#endif
