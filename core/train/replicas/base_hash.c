/* The identity of the base of a model with adapters (base_hash.h). */
#include "train/replicas/base_hash.h"

#include "context/context.h"
#include "device/buffer.h"
#include "train/replicas/state.h"
#include "train/replicas/state_buffers.h"
#include "train/replicas/state_parts.h"
#include "train/state/trainer.h"

#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dpti_base_hash_of(const dpt_model *arranged, const float *flat, char out[DPTI_HASH_TEXT])
{
    const size_t begin = arranged->flat_gradients, n = arranged->flat_size - begin;
    struct sha256_ctx sha256;
    uint8_t digest[SHA256_DIGEST_SIZE];
    sha256_init(&sha256);
    sha256_update(&sha256, n * sizeof *flat, (const uint8_t *)(const void *)(flat + begin));
    sha256_digest(&sha256, sizeof digest, digest);
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

/* Without a copy where the host sees the device's memory. */
static dpt_status hash_replica(dpt_trainer *t, size_t rank)
{
    const float *view = dpti_state_parts_on(t)
                            ? t->replicas.parts.mirror[0]
                            : dpti_host_pointer(&t->workers[rank].replica.parameters);
    if (view) {
        dpti_base_hash_of(t->model, view, t->replicas.base_hash);
        return DPT_OK;
    }
    float *flat = dpti_trainer_make_flat(t);
    if (!flat) return DPT_E_NO_MEMORY;
    const dpt_status status = dpti_trainer_read(t, rank, DPT_PARAMETER, flat);
    if (status == DPT_OK) dpti_base_hash_of(t->model, flat, t->replicas.base_hash);
    free(flat);
    return status;
}

dpt_status dpti_base_hash(dpt_trainer *trainer, const char **out)
{
    dpt_trainer *t = trainer;
    const size_t rank = dpti_trainer_trusted(t);
    *out = NULL;
    if (!t->model->lora) return DPT_OK;
    if (!t->replicas.base_hash[0]) {
        if (rank == t->n_workers)
            return dpt_fail(t->context, DPT_E_STATE, "no device holds trusted weights");
        DPT_TRY(hash_replica(t, rank));
    }
    *out = t->replicas.base_hash;
    return DPT_OK;
}

const char *dpti_base_hash_known(const dpt_trainer *trainer)
{
    return trainer->replicas.base_hash;
}

dpt_status dpti_base_check(dpt_trainer *trainer, const char *path, const char *recorded)
{
    const char *hash;
    if (!recorded) return DPT_OK;
    DPT_TRY(dpti_base_hash(trainer, &hash));
    if (!hash || strcmp(hash, recorded) == 0) return DPT_OK;
    return dpt_fail(trainer->context, DPT_E_INVALID,
                    "%s has adapters of other base weights than those that are loaded: load the "
                    "weights with which it was trained (--load)",
                    path);
}
