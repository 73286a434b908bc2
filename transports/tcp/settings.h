/* What the environment says of the job: address, number, rank, secret, networks, times. */
#ifndef DPT_TCP_SETTINGS_H
#define DPT_TCP_SETTINGS_H

#include "transport.h"

#include <netinet/in.h>
#include <sys/socket.h>

enum {
    TCP_MOST_PROCESSES = 256,
    TCP_MOST_NETWORKS = 32,
    TCP_LEAST_SECRET = 16, /* bytes */
    TCP_MOST_SECRET = 4096,
    TCP_ADDRESS_TEXT = 80
};

typedef union tcp_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} tcp_address;

/* Addresses that have the first n_bits of `bytes`. */
typedef struct tcp_network {
    sa_family_t family;
    uint8_t bytes[16]; /* 4 of them for AF_INET */
    unsigned n_bits;
} tcp_network;

typedef struct tcp_settings {
    size_t rank, n;
    size_t n_joiners;    /* processes that may come later */
    bool comes;          /* this process comes to a job that runs: rank and n are not known */
    tcp_address address; /* where process 0 listens; if this process comes, the first process */
    double timeout;      /* seconds: a process that is silent for longer is left behind */
    double join_timeout; /* seconds in which all processes must have joined */
    uint8_t secret[TCP_MOST_SECRET];
    size_t n_secret;
    tcp_network networks[TCP_MOST_NETWORKS]; /* allowed beside the loopback addresses */
    size_t n_networks;
} tcp_settings;

/* Reads the environment and the file of the secret.  DPT_E_ABSENT without an address;
   DPT_E_INVALID and DPT_E_IO say what to give. */
DPT_CHECK_RESULT dpt_status dpt_tcp_settings_read(tcp_settings *out, dpt_error *error);

socklen_t dpt_tcp_address_bytes(const tcp_address *address);
/* Returns whether processes may talk to this address: a loopback address, or one in a network that
   is named. */
bool dpt_tcp_is_allowed(const tcp_settings *settings, const tcp_address *address);
/* Writes "10.1.0.2:29500" or "[::1]:29500". */
void dpt_tcp_address_text(const tcp_address *address, char out[TCP_ADDRESS_TEXT]);

#endif
