/* The islands of a trainer, described and watched (islands.h). */
#include "train/exchange/islands.h"
#include "device/communicator.h"

#include "train/state/trainer.h"

#include <stdio.h>
#include <string.h>

/* A sum takes milliseconds, that of several machines too. */
static const double sum_seconds = 60;

/* Lists as many of the members' names as fit. */
static void list_names(const dpti_island *island, char *out, size_t n_bytes)
{
    size_t length = 0;
    for (size_t i = 0; i < dpti_island_size(island) && length < n_bytes; i++) {
        const int more = snprintf(out + length, n_bytes - length, "%s%s", i ? ", " : "",
                                  dpti_island_device(island, i)->id);
        length += more > 0 ? (size_t)more : 0;
    }
}

/* Names the devices whose gradients the island sums, for a person. */
void dpti_islands_name(const dpt_trainer *trainer, const dpti_island *island, char *out,
                       size_t n_bytes)
{
    if (dpti_island_is_wide(island))
        snprintf(out, n_bytes, "the devices of all %zu processes",
                 dpti_processes_count(trainer->processes));
    else
        list_names(island, out, n_bytes);
}

void dpti_islands_set_due(dpt_trainer *trainer)
{
    trainer->exchange.islands.due = true;
}

size_t dpti_islands_count(const dpt_trainer *trainer)
{
    return trainer->exchange.islands.n;
}

void dpti_islands_words(const dpt_trainer *trainer, size_t i, char *out, size_t n_bytes)
{
    char names[200];
    dpti_islands_name(trainer, trainer->exchange.islands.items[i], names, sizeof names);
    snprintf(out, n_bytes, "%s sum gradients among themselves", names);
}

bool dpti_islands_are_wide(const dpt_trainer *trainer)
{
    return trainer->exchange.islands.n > 0 &&
           dpti_island_is_wide(trainer->exchange.islands.items[0]);
}

bool dpti_islands_failed(const dpt_trainer *trainer)
{
    for (size_t i = 0; i < trainer->exchange.islands.n; i++)
        if (!dpti_island_is_sound(trainer->exchange.islands.items[i])) return true;
    return false;
}

size_t dpti_islands_number(const dpt_trainer *trainer, size_t device)
{
    const size_t rank = device - trainer->first_device;
    if (dpti_islands_are_wide(trainer)) return 1;
    if (device < trainer->first_device || rank >= trainer->n_workers) return 0;
    const dpti_island *island = trainer->workers[rank].exchange.island_slot.island;
    for (size_t i = 0; i < trainer->exchange.islands.n; i++)
        if (trainer->exchange.islands.items[i] == island) return i + 1;
    return 0;
}

void dpti_islands_abort(const dpt_trainer *trainer)
{
    for (size_t i = 0; i < trainer->exchange.islands.n; i++)
        dpti_island_abort(trainer->exchange.islands.items[i]);
}

void dpti_islands_watch(const dpt_trainer *trainer, double seconds)
{
    const double limit = trainer->device_timeout > 0 ? trainer->device_timeout : sum_seconds;
    for (size_t i = 0; i < trainer->exchange.islands.n; i++)
        dpti_island_watch(trainer->exchange.islands.items[i], seconds, limit);
}
