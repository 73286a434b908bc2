/* What the workers of all processes can do (capacities.h). */
#include "train/programs/capacities.h"

#include "train/components/checksum.h"
#include "train/components/outcome.h"
#include "train/feeding/feeding.h"
#include "train/membership/presence.h"
#include "train/peers/peers.h"
#include "train/plan/micro_batches.h"
#include "train/state/trainer.h"

#include <string.h>

static uint64_t checksum_of_replay(const dpt_trainer *t)
{
    return dpti_checksum(1, t->replay.shards,
                         t->replay.n_steps * t->replay.n_devices * sizeof *t->replay.shards);
}

static dpt_status check_replay(dpt_trainer *t)
{
    const uint64_t mine = checksum_of_replay(t);
    dpti_gathered all = {.data = NULL};
    DPT_TRY(dpti_peers_all_gather(t, DPT_OK, (dpti_bytes){&mine, sizeof mine}, &all));
    bool same = true;
    for (size_t r = 0; r < dpti_processes_count(t->processes); r++)
        same = same && memcmp(all.data + all.begins[r], all.data, sizeof mine) == 0;
    dpti_gathered_free(&all);
    return dpti_peers_agree(t, same ? DPT_OK
                                    : dpt_fail(t->context, DPT_E_INVALID,
                                               "the logs that are replayed differ; give all "
                                               "processes the same one"));
}

void dpti_peers_note(dpt_trainer *trainer, size_t rank)
{
    const dpti_worker *w = &trainer->workers[rank];
    const size_t at_once = w->replica.capacity;
    dpti_peer *peer = dpti_peers_own(trainer, rank);
    const size_t limit = dpti_micro_batch_limit_of(w);
    const bool is_short = at_once < limit && at_once < w->capacity; /* of memory */
    peer->capacity = dpti_is_lost(w) ? 0 : w->capacity;
    peer->at_once = dpti_is_lost(w) ? 0 : at_once;
    peer->in_micro_batches = !dpti_is_lost(w) && dpti_has_micro_batches(w);
    peer->micro_batch_limit = is_short && !dpti_is_lost(w) ? at_once : limit;
    peer->cached = dpti_is_limited_by_caches(w) && peer->in_micro_batches && !is_short;
    peer->streamed = dpti_feeding_has_feed(w);
}

dpt_status dpti_peers_share_capacities(dpt_trainer *trainer, dpt_status mine)
{
    dpt_trainer *t = trainer;
    for (size_t i = 0; i < t->n_workers; i++)
        dpti_peers_note(t, i);
    DPT_TRY(dpti_peers_tell(t, mine));
    return t->processes && t->replay.n_steps > 0 ? check_replay(t) : DPT_OK;
}
