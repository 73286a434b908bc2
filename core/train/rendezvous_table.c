/* The places where driver threads wait for each other (rendezvous_table.h). */
#include "train/rendezvous_table.h"

#include "train/exchange/exchange.h"
#include "train/exchange/islands.h"
#include "train/peers/peers.h"
#include "train/replicas/state_parts.h"
#include "train/replicas/verify.h"

static void set_present(dpt_trainer *trainer, size_t rank, bool present)
{
    dpti_exchange_set_present(trainer, rank, present);
    dpti_verify_set_present(trainer, rank, present);
    dpti_state_parts_set_present(trainer, rank, present);
}

static void break_all(dpt_trainer *trainer)
{
    dpti_peers_break(trainer);
    dpti_exchange_break(trainer);
    dpti_verify_break(trainer);
    dpti_state_parts_break(trainer);
}

static void mend_all(dpt_trainer *trainer)
{
    dpti_peers_mend(trainer);
    dpti_exchange_mend(trainer);
    dpti_verify_mend(trainer);
    dpti_state_parts_mend(trainer);
}

const dpti_rendezvous_table dpti_trainer_rendezvous = {.set_present = set_present,
                                                       .break_all = break_all,
                                                       .mend_all = mend_all,
                                                       .abort_islands = dpti_islands_abort,
                                                       .watch_islands = dpti_islands_watch};
