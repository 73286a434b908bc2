/* How many samples fit on a device at once (room.h). */
#include "train/replicas/room.h"

#include "train/state/trainer.h"

void dpti_memory_begin(dpti_worker *worker)
{
    worker->replicas.room = worker->replica.capacity;
    worker->replicas.held = 0;
}

size_t dpti_memory_room(const dpti_worker *worker)
{
    return worker->replicas.room;
}

void dpti_memory_limit_room(dpti_worker *worker, size_t n)
{
    if (n < worker->replicas.room) worker->replicas.room = n;
}

size_t dpti_memory_held(const dpti_worker *worker)
{
    return worker->replicas.held;
}

void dpti_memory_note_held(dpti_worker *worker, size_t n)
{
    if (n > worker->replicas.held) worker->replicas.held = n;
}

void dpti_memory_forget_held(dpti_worker *worker)
{
    worker->replicas.held = 0;
}
