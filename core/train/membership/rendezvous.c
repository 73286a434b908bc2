/* The places where driver threads wait for each other (rendezvous.h). */
#include "train/membership/rendezvous.h"

#include "train/exchange/exchange.h"
#include "train/peers/peers.h"
#include "train/recovery/verify.h"
#include "train/trainer.h"

void dpti_trainer_set_present(dpt_trainer *trainer, size_t rank, bool present)
{
    dpti_exchange_set_present(trainer, rank, present);
    dpti_verify_set_present(trainer, rank, present);
}

void dpti_rendezvous_break_all(dpt_trainer *trainer)
{
    dpti_peers_break(trainer);
    dpti_exchange_break(trainer);
    dpti_verify_break(trainer);
}

void dpti_rendezvous_mend_all(dpt_trainer *trainer)
{
    dpti_peers_mend(trainer);
    dpti_exchange_mend(trainer);
    dpti_verify_mend(trainer);
}
