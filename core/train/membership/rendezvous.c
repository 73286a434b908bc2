/* The places where driver threads wait for each other (rendezvous.h). */
#include "train/membership/rendezvous.h"

#include "train/state/trainer.h"

void dpti_rendezvous_set_table(dpt_trainer *trainer, const dpti_rendezvous_table *table)
{
    trainer->membership.rendezvous = table;
}

void dpti_trainer_set_present(dpt_trainer *trainer, size_t rank, bool present)
{
    trainer->membership.rendezvous->set_present(trainer, rank, present);
}

void dpti_rendezvous_break_all(dpt_trainer *trainer)
{
    trainer->membership.rendezvous->break_all(trainer);
}

void dpti_rendezvous_mend_all(dpt_trainer *trainer)
{
    trainer->membership.rendezvous->mend_all(trainer);
}

void dpti_rendezvous_abort_islands(const dpt_trainer *trainer)
{
    trainer->membership.rendezvous->abort_islands(trainer);
}

void dpti_rendezvous_watch_islands(const dpt_trainer *trainer, double seconds)
{
    trainer->membership.rendezvous->watch_islands(trainer, seconds);
}
