/* Reads the environment variables of the transport.  The transport has its settings from there
   because `open` of the table has no argument for them. */
#include "settings.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Numbers --------------------------------------------------------------------------------- */

/* A variable that holds a number. */
typedef struct number {
    const char *name;
    double least, most, usual;
    bool whole, required;
} number;

/* A lost packet is repeated after about 0.2, 0.6, 1.4, 3, 6 and 13 seconds, and a machine that
   swaps may stand still for seconds.  20 seconds leave room for both. */
static const number timeout_number = {
    .name = "DPTRAIN_PROCESS_TIMEOUT", .least = 0.5, .most = 3600, .usual = 20};
/* People start processes by hand, and clusters start them one after another. */
static const number join_number = {
    .name = "DPTRAIN_JOIN_TIMEOUT", .least = 1, .most = 86400, .usual = 300};
static const number count_number = {.name = "DPTRAIN_PROCESSES",
                                    .least = 1,
                                    .most = TCP_MOST_PROCESSES,
                                    .whole = true,
                                    .required = true};

/* Unset and empty are the same. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* Digits, and for a number that is not whole also one point: the same in every locale. */
static bool parse(const char *text, bool whole, double *out)
{
    double value = 0, unit = 1;
    bool digits = false, point = false;
    for (const char *c = text; *c; c++) {
        if (*c == '.' && !whole && !point) {
            point = true;
            continue;
        }
        if (*c < '0' || *c > '9') return false;
        digits = true;
        value = 10 * value + (*c - '0');
        if (point) unit *= 10;
    }
    *out = value / unit;
    return digits && strlen(text) <= 12;
}

static dpt_status read_number(const number *what, double *out, dpt_error *error)
{
    const char *text = variable(what->name);
    if (!text && what->required)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "%s is not set: give a number from %g to %g, as DPTRAIN_ADDRESS needs it",
                        what->name, what->least, what->most);
    if (!text) {
        *out = what->usual;
        return DPT_OK;
    }
    if (parse(text, what->whole, out) && *out >= what->least && *out <= what->most) return DPT_OK;
    return DPT_FAIL(error, DPT_E_INVALID, "%s is \"%.40s\": give a number%s from %g to %g",
                    what->name, text, what->whole ? "" : " of seconds", what->least, what->most);
}

static dpt_status read_numbers(tcp_settings *s, dpt_error *error)
{
    double n = 0, rank = 0, joiners = 0;
    if (s->comes) {
        s->timeout = timeout_number.usual; /* until the job has told its own */
        return read_number(&join_number, &s->join_timeout, error);
    }
    DPT_TRY(read_number(&count_number, &n, error));
    const number joiners_number = {
        .name = "DPTRAIN_JOINERS", .most = TCP_MOST_PROCESSES - n, .whole = true};
    DPT_TRY(read_number(&joiners_number, &joiners, error));
    const number rank_number = {
        .name = "DPTRAIN_RANK", .most = n - 1, .whole = true, .required = true};
    DPT_TRY(read_number(&rank_number, &rank, error));
    DPT_TRY(read_number(&timeout_number, &s->timeout, error));
    DPT_TRY(read_number(&join_number, &s->join_timeout, error));
    s->n = (size_t)n;
    s->rank = (size_t)rank;
    s->n_joiners = (size_t)joiners;
    return DPT_OK;
}

/* ---- The secret ------------------------------------------------------------------------------ */

/* How to get a file.  A process that comes has no use for a new secret. */
static const char *advise(const tcp_settings *s)
{
    return s->comes ? "copy the secret file of the job to this host, and run `chmod 600` on it"
                    : "make one with `head -c 32 /dev/urandom >FILE; chmod 600 FILE` and copy it "
                      "to all hosts";
}

static dpt_status check_secret_file(const tcp_settings *s, const char *path, int file,
                                    dpt_error *error)
{
    struct stat is;
    if (fstat(file, &is) != 0 || !S_ISREG(is.st_mode))
        return DPT_FAIL(error, DPT_E_INVALID, "DPTRAIN_SECRET_FILE: %.200s is no file: %s", path,
                        advise(s));
    if (is.st_mode & (S_IRWXG | S_IRWXO))
        return DPT_FAIL(error, DPT_E_INVALID,
                        "DPTRAIN_SECRET_FILE: others may read or change %.200s: run `chmod 600` "
                        "on it",
                        path);
    return DPT_OK;
}

static dpt_status read_secret_file(const char *path, int file, tcp_settings *s, dpt_error *error)
{
    size_t n = 0;
    DPT_TRY(check_secret_file(s, path, file, error));
    for (;;) {
        const ssize_t got = read(file, s->secret + n, sizeof s->secret - n);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return DPT_FAIL_NATIVE(error, DPT_E_IO, errno,
                                   "DPTRAIN_SECRET_FILE: cannot read %.200s: %s", path,
                                   strerror(errno));
        n += (size_t)got;
        if (got == 0 || n == sizeof s->secret) break;
    }
    /* An editor ends a line that a copy by hand does not end. */
    while (n > 0 && (s->secret[n - 1] == '\n' || s->secret[n - 1] == '\r'))
        n--;
    if (n < TCP_LEAST_SECRET || n == sizeof s->secret)
        return DPT_FAIL(error, DPT_E_INVALID, "DPTRAIN_SECRET_FILE: %.200s has %s: %s", path,
                        n < TCP_LEAST_SECRET ? "fewer than 16 bytes" : "4096 bytes or more",
                        advise(s));
    s->n_secret = n;
    return DPT_OK;
}

static dpt_status read_secret(tcp_settings *s, dpt_error *error)
{
    const char *path = variable("DPTRAIN_SECRET_FILE");
    if (!path)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "DPTRAIN_SECRET_FILE is not set: name a file with the secret that all "
                        "processes have; %s",
                        advise(s));
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0)
        return DPT_FAIL_NATIVE(error, DPT_E_INVALID, errno,
                               "DPTRAIN_SECRET_FILE: cannot open %.200s: %s; %s", path,
                               strerror(errno), advise(s));
    const dpt_status status = read_secret_file(path, file, s, error);
    (void)close(file);
    return status;
}

/* ---- Addresses ------------------------------------------------------------------------------- */

socklen_t dpt_tcp_address_bytes(const tcp_address *address)
{
    return address->any.sa_family == AF_INET6 ? sizeof address->v6 : sizeof address->v4;
}

void dpt_tcp_address_text(const tcp_address *address, char out[TCP_ADDRESS_TEXT])
{
    const bool v6 = address->any.sa_family == AF_INET6;
    char host[INET6_ADDRSTRLEN + 1 + IF_NAMESIZE] = "?";
    (void)inet_ntop(address->any.sa_family,
                    v6 ? (const void *)&address->v6.sin6_addr : &address->v4.sin_addr, host,
                    sizeof host);
    if (v6 && address->v6.sin6_scope_id > 0) {
        strcat(host, "%");
        if (!if_indextoname(address->v6.sin6_scope_id, host + strlen(host))) strcat(host, "?");
    }
    const unsigned port = ntohs(v6 ? address->v6.sin6_port : address->v4.sin_port);
    snprintf(out, TCP_ADDRESS_TEXT, v6 ? "[%s]:%u" : "%s:%u", host, port);
}

static bool has_bits(const uint8_t *bytes, const tcp_network *network)
{
    const unsigned whole = network->n_bits / 8, rest = network->n_bits % 8;
    if (memcmp(bytes, network->bytes, whole) != 0) return false;
    return rest == 0 || (bytes[whole] ^ network->bytes[whole]) >> (8 - rest) == 0;
}

bool dpt_tcp_is_allowed(const tcp_settings *settings, const tcp_address *address)
{
    const sa_family_t family = address->any.sa_family;
    if (family != AF_INET && family != AF_INET6) return false;
    const uint8_t *bytes = family == AF_INET6 ? address->v6.sin6_addr.s6_addr
                                              : (const uint8_t *)&address->v4.sin_addr.s_addr;
    if (family == AF_INET && bytes[0] == 127) return true;
    if (family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr)) return true;
    for (size_t i = 0; i < settings->n_networks; i++)
        if (settings->networks[i].family == family && has_bits(bytes, &settings->networks[i]))
            return true;
    return false;
}

/* "10.1.0.0/16" or "fd00::/8". */
static bool parse_network(const char *text, size_t length, tcp_network *out)
{
    char word[64];
    double bits = 0;
    if (length >= sizeof word) return false;
    memcpy(word, text, length);
    word[length] = '\0';
    char *slash = strchr(word, '/');
    if (!slash || !parse(slash + 1, true, &bits)) return false;
    *slash = '\0';
    *out = (tcp_network){.family = strchr(word, ':') ? AF_INET6 : AF_INET};
    if (inet_pton(out->family, word, out->bytes) != 1) return false;
    if (bits > (out->family == AF_INET6 ? 128 : 32)) return false;
    out->n_bits = (unsigned)bits;
    return true;
}

static dpt_status read_networks(tcp_settings *s, dpt_error *error)
{
    const char *text = variable("DPTRAIN_NETWORKS");
    while (text && *text) {
        const size_t length = strcspn(text, ",");
        if (s->n_networks == TCP_MOST_NETWORKS ||
            !parse_network(text, length, &s->networks[s->n_networks]))
            return DPT_FAIL(error, DPT_E_INVALID,
                            "DPTRAIN_NETWORKS: \"%.*s\" is no network: give at most %d, as in "
                            "10.1.0.0/16,fd00::/8",
                            (int)(length < 60 ? length : 60), text, TCP_MOST_NETWORKS);
        s->n_networks++;
        text += length + (text[length] == ',');
    }
    return DPT_OK;
}

/* Splits HOST:PORT or [HOST]:PORT. */
static bool split(const char *text, char host[256], char port[8])
{
    const char *colon = strrchr(text, ':');
    double where = 0;
    if (!colon || !parse(colon + 1, true, &where) || where < 1 || where > 65535) return false;
    const char *begin = text, *end = colon;
    if (*begin == '[') {
        if (end[-1] != ']') return false;
        begin++;
        end--;
    } else if (memchr(begin, ':', (size_t)(end - begin))) {
        return false; /* an IPv6 address without brackets */
    }
    const size_t length = (size_t)(end - begin);
    if (length == 0 || length >= 256) return false;
    memcpy(host, begin, length);
    host[length] = '\0';
    if (strpbrk(host, "[] \t\r\n")) return false; /* no name of a host has these */
    snprintf(port, 8, "%u", (unsigned)where);
    return true;
}

/* Each interface has link-local addresses of its own, and all of them have the same beginning. */
static bool lacks_interface(const tcp_address *address)
{
    return address->any.sa_family == AF_INET6 && address->v6.sin6_scope_id == 0 &&
           IN6_IS_ADDR_LINKLOCAL(&address->v6.sin6_addr);
}

/* Where the address is from. */
static const char *variable_of_address(const tcp_settings *s)
{
    return s->comes ? "DPTRAIN_JOIN" : "DPTRAIN_ADDRESS";
}

/* What the address is, for a message: `dptrain join` sets the variable that the user did not. */
static const char *words_for_address(const tcp_settings *s)
{
    return s->comes ? "the address to join (DPTRAIN_JOIN)" : "DPTRAIN_ADDRESS";
}

/* Takes the first address of the host that is allowed. */
static dpt_status choose_address(tcp_settings *s, const struct addrinfo *found, const char *text,
                                 dpt_error *error)
{
    const char *name = words_for_address(s);
    char words[TCP_ADDRESS_TEXT] = "";
    for (const struct addrinfo *a = found; a; a = a->ai_next) {
        tcp_address one = {.any = {.sa_family = AF_UNSPEC}};
        if (a->ai_addrlen > sizeof one) continue;
        memcpy(&one, a->ai_addr, a->ai_addrlen);
        if (lacks_interface(&one))
            return DPT_FAIL(error, DPT_E_INVALID,
                            "%s: %.80s is a link-local address: name this host's interface too, "
                            "as in [fe80::1%%eth0]:29500",
                            name, text);
        if (dpt_tcp_is_allowed(s, &one)) {
            s->address = one;
            return DPT_OK;
        }
        if (!*words) dpt_tcp_address_text(&one, words);
    }
    return DPT_FAIL(error, DPT_E_INVALID,
                    "%s: %.80s (%s) is no loopback address and in no network of "
                    "DPTRAIN_NETWORKS: name a trusted network, as in DPTRAIN_NETWORKS=10.1.0.0/16",
                    name, text, words);
}

static dpt_status read_address(tcp_settings *s, dpt_error *error)
{
    const char *name = words_for_address(s), *text = variable(variable_of_address(s));
    char host[256], port[8];
    if (!text)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "DPTRAIN_ADDRESS is not set: give HOST:PORT of the first process");
    if (!split(text, host, port))
        return DPT_FAIL(error, DPT_E_INVALID,
                        "%s is \"%.80s\": give HOST:PORT, as in 10.1.0.2:29500 or "
                        "[::1]:29500, with a port from 1 to 65535",
                        name, text);
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const int code = getaddrinfo(host, port, &hints, &found);
    if (code != 0)
        return DPT_FAIL_NATIVE(error, DPT_E_INVALID, code, "%s: there is no host %.80s: %s", name,
                               host, gai_strerror(code));
    const dpt_status status = choose_address(s, found, text, error);
    freeaddrinfo(found);
    return status;
}

dpt_status dpt_tcp_settings_read(tcp_settings *out, dpt_error *error)
{
    *out = (tcp_settings){.comes = variable("DPTRAIN_JOIN") != NULL};
    DPT_TRY(read_networks(out, error));
    DPT_TRY(read_address(out, error));
    DPT_TRY(read_numbers(out, error));
    return read_secret(out, error);
}
