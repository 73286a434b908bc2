/* How many samples fit on a device at once (room.h). */
#include "train/recovery/room.h"

#include "train/trainer.h"

void dpti_memory_begin(dpti_worker *worker)
{
    worker->recovery.room = worker->replica.capacity;
    worker->recovery.held = 0;
}

size_t dpti_memory_room(const dpti_worker *worker)
{
    return worker->recovery.room;
}

void dpti_memory_limit_room(dpti_worker *worker, size_t n)
{
    if (n < worker->recovery.room) worker->recovery.room = n;
}
