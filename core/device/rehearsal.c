/* Rehearsals (rehearsal.h). */
#include "device/rehearsal.h"

void dpti_rehearsal_begin(dpti_device *device, size_t limit_bytes)
{
    device->rehearsal = (dpti_rehearsal){.on = true, .limit_bytes = limit_bytes};
}

void dpti_rehearsal_end(dpti_device *device)
{
    device->rehearsal = (dpti_rehearsal){.on = false};
}

size_t dpti_rehearsal_needs(const dpti_device *device)
{
    return device->rehearsal.needs_bytes;
}

size_t dpti_memory_capacity(const dpti_device *device)
{
    const size_t limit = device->memory_limit_bytes, all = device->info.memory_bytes;
    if (device->rehearsal.on) return device->rehearsal.limit_bytes;
    return all > 0 && all < limit ? all : limit;
}
