/* The proofs of the handshake. */
#include "handshake.h"

#include <errno.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>

static const char magic[8] = {'d', 'p', 't', 'r', 'a', 'i', 'n', '\n'};

dpt_status dpt_tcp_hello_make(tcp_hello *out, dpt_error *error)
{
    tcp_hello hello = {.version = TCP_VERSION};
    memcpy(hello.magic, magic, sizeof magic);
    if (getrandom(hello.nonce, sizeof hello.nonce, 0) != (ssize_t)sizeof hello.nonce)
        return DPT_FAIL_NATIVE(error, DPT_E_IO, errno, "no random numbers: %s", strerror(errno));
    *out = hello;
    return DPT_OK;
}

bool dpt_tcp_hello_is(const tcp_hello *hello)
{
    return memcmp(hello->magic, magic, sizeof magic) == 0;
}

uint32_t dpt_tcp_timeout_ms(const tcp_settings *settings)
{
    return (uint32_t)(1000 * settings->timeout + 0.5);
}

static void begin(const tcp_settings *settings, const tcp_nonces *nonces, const char *label,
                  struct hmac_sha256_ctx *hash)
{
    hmac_sha256_set_key(hash, settings->n_secret, settings->secret);
    hmac_sha256_update(hash, strlen(label) + 1, (const uint8_t *)label);
    hmac_sha256_update(hash, sizeof *nonces, (const uint8_t *)nonces);
}

static void add_claim(struct hmac_sha256_ctx *hash, const tcp_claim *claim)
{
    hmac_sha256_update(hash, offsetof(tcp_claim, proof), (const uint8_t *)claim);
}

static void prove_claim(const tcp_settings *settings, const tcp_nonces *nonces,
                        const tcp_claim *claim, uint8_t out[TCP_PROOF_BYTES])
{
    struct hmac_sha256_ctx hash;
    begin(settings, nonces, "dptrain claim", &hash);
    add_claim(&hash, claim);
    hmac_sha256_digest(&hash, TCP_PROOF_BYTES, out);
}

void dpt_tcp_claim_prove(const tcp_settings *settings, const tcp_nonces *nonces, tcp_claim *claim)
{
    prove_claim(settings, nonces, claim, claim->proof);
}

bool dpt_tcp_claim_holds(const tcp_settings *settings, const tcp_nonces *nonces,
                         const tcp_claim *claim)
{
    uint8_t right[TCP_PROOF_BYTES];
    prove_claim(settings, nonces, claim, right);
    return memeql_sec(right, claim->proof, sizeof right) != 0; /* in constant time */
}

void dpt_tcp_answer_prove(const tcp_settings *settings, const tcp_nonces *nonces,
                          const tcp_claim *claim, tcp_answer *answer)
{
    struct hmac_sha256_ctx hash;
    begin(settings, nonces, "dptrain answer", &hash);
    add_claim(&hash, claim);
    hmac_sha256_update(&hash, offsetof(tcp_answer, proof), (const uint8_t *)answer);
    hmac_sha256_digest(&hash, TCP_PROOF_BYTES, answer->proof);
}

bool dpt_tcp_answer_holds(const tcp_settings *settings, const tcp_nonces *nonces,
                          const tcp_claim *claim, const tcp_answer *answer)
{
    tcp_answer right = *answer;
    dpt_tcp_answer_prove(settings, nonces, claim, &right);
    return memeql_sec(right.proof, answer->proof, sizeof right.proof) != 0;
}
