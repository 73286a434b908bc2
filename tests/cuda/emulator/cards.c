/* The emulated cards: their properties, and the current card of each thread. */
#include "emulator.h"

#include <stdio.h>
#include <string.h>

static _Thread_local int current = 0;

int emu_current(void)
{
    return current;
}

static bool exists(int card)
{
    return card >= 0 && card < emu.n_cards;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    EMU_ENTER(-1);
    *count = emu.n_cards;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int card)
{
    EMU_ENTER(-1);
    if (!exists(card)) return emu_leave(cudaErrorInvalidDevice);
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "an emulated card");
    memset(out->uuid.bytes, 0xe0 + card, sizeof out->uuid.bytes);
    out->totalGlobalMem = emu.cards[card].n_bytes;
    out->major = 9;
    out->multiProcessorCount = 12; /* so that dpt_grid_merge knows few channels from many */
    out->pciBusID = 0x20 + card;
    out->maxThreadsPerBlock = 1024;
    out->sharedMemPerBlock = 48 << 10;
    out->warpSize = 32;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int card)
{
    EMU_ENTER(-1);
    if (!exists(card)) return emu_leave(cudaErrorInvalidDevice);
    if (attribute != cudaDevAttrMemoryPoolsSupported) return emu_leave(cudaErrorInvalidValue);
    *value = 1;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int card)
{
    EMU_ENTER(card >= 0 && card < EMU_MOST_CARDS ? card : -1);
    if (!exists(card)) return emu_leave(cudaErrorInvalidDevice);
    current = card;
    emu_lock();
    emu.cards[card].has_context = true;
    emu_unlock();
    return cudaSuccess;
}

bool emulated_has_context(int card)
{
    emu_lock();
    const bool has = emu.cards[card].has_context;
    emu_unlock();
    return has;
}

cudaError_t cudaGetDevice(int *card)
{
    EMU_ENTER(-1);
    *card = current;
    return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned flags)
{
    EMU_ENTER(current);
    return flags == cudaDeviceScheduleBlockingSync ? cudaSuccess : emu_leave(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int card, int peer)
{
    EMU_ENTER(-1);
    if (!exists(card) || !exists(peer)) return emu_leave(cudaErrorInvalidDevice);
    *can = card != peer && !emu.apart;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    EMU_ENTER(current);
    if (!exists(peer) || peer == current) return emu_leave(cudaErrorInvalidDevice);
    if (flags != 0) return emu_leave(cudaErrorInvalidValue);
    if (emu.apart) return emu_leave(cudaErrorPeerAccessUnsupported);
    emu_lock();
    const bool before = emu.cards[current].reaches[peer];
    emu.cards[current].reaches[peer] = true;
    emu_unlock();
    return before ? emu_leave(cudaErrorPeerAccessAlreadyEnabled) : cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *n_free, size_t *n_all)
{
    EMU_ENTER(current);
    emu_lock();
    *n_all = emu.cards[current].n_bytes;
    *n_free = *n_all - emu.cards[current].n_used;
    emu_unlock();
    return cudaSuccess;
}
