/* Access of the cards of one process to each other's memory. */
#include "reach.h"

static int ordinal_of(const dpt_device *device)
{
    return dpt_cuda_device_of(device)->ordinal;
}

static dpt_status check_pair(dpt_device *first, int from, int to)
{
    int can = 0;
    DPT_CUDA_TRY(first, cudaDeviceCanAccessPeer(&can, from, to));
    if (can) return DPT_OK;
    return DPT_FAIL(&first->error, DPT_E_UNSUPPORTED, "cuda:%d cannot reach cuda:%d's memory", from,
                    to);
}

dpt_status dpt_cuda_reach_check(const dpt_group *group)
{
    for (size_t i = 0; i < group->n_devices; i++) {
        const int own = ordinal_of(group->devices[i]);
        for (size_t k = 0; k < group->n_devices; k++)
            if (k != i) DPT_TRY(check_pair(group->devices[0], own, ordinal_of(group->devices[k])));
    }
    return DPT_OK;
}

/* Opens the memory of `other` to the card `own`.  Memory of a pool is opened by the pool, other
   memory by the card. */
static dpt_status open_memory(dpt_device *first, const dpt_device *other, int own)
{
    const dpt_cuda_device *cuda = dpt_cuda_device_of(other);
    const struct cudaMemAccessDesc access = {
        .location = {.type = cudaMemLocationTypeDevice, .id = own},
        .flags = cudaMemAccessFlagsProtReadWrite,
    };
    if (cuda->pool) {
        DPT_CUDA_TRY(first, cudaMemPoolSetAccess(cuda->pool, &access, 1));
        return DPT_OK;
    }
    DPT_CUDA_TRY(first, cudaSetDevice(own));
    const cudaError_t code = cudaDeviceEnablePeerAccess(cuda->ordinal, 0);
    if (code == cudaErrorPeerAccessAlreadyEnabled)
        (void)cudaGetLastError();
    else if (code != cudaSuccess)
        return DPT_CUDA_FAIL(&first->error, code, "cudaDeviceEnablePeerAccess");
    return DPT_OK;
}

static dpt_status open_pair(dpt_device *first, const dpt_device *other, int own)
{
    DPT_TRY(check_pair(first, own, ordinal_of(other)));
    return open_memory(first, other, own);
}

dpt_status dpt_cuda_reach_open(const dpt_group *group)
{
    dpt_status all = DPT_OK;
    for (size_t i = 0; i < group->n_devices; i++) {
        const int own = ordinal_of(group->devices[i]);
        for (size_t k = 0; k < group->n_devices; k++) {
            if (k == i) continue;
            const dpt_status status = open_pair(group->devices[0], group->devices[k], own);
            if (status != DPT_OK && status != DPT_E_UNSUPPORTED) return status;
            if (status != DPT_OK) all = status;
        }
    }
    return all;
}

int dpt_cuda_chosen(dpt_device *const *devices, size_t n)
{
    int chosen = -1;
    if (cudaGetDevice(&chosen) != cudaSuccess) (void)cudaGetLastError();
    for (size_t i = 0; i < n; i++)
        if (ordinal_of(devices[i]) == chosen) return chosen;
    return -1;
}

void dpt_cuda_go_back(int chosen)
{
    if (chosen >= 0 && cudaSetDevice(chosen) != cudaSuccess) (void)cudaGetLastError();
}
