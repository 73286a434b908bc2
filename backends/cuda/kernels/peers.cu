/* The kernels of a rank's part of a collective (peers.c), in the memory of all ranks. */
#include "peers.h"
#include "table.h"

/* Reads the addresses of all ranks' data, once for a group because the table is in host memory.
   false: the communicator was aborted. */
DEVICE bool find_data(float **data, const peers_table *table, u32 n_ranks)
{
    const volatile peers_table *const t = table;
    if (LOCAL_ID < n_ranks) {
        const u64 low = t->data[LOCAL_ID][0], high = t->data[LOCAL_ID][1];
        data[LOCAL_ID] = t->aborted ? 0 : (float *)(high << 32 | low);
    }
    BARRIER();
    for (u32 r = 0; r < n_ranks; r++)
        if (!data[r]) return false;
    return true;
}

/* Sums the elements of all ranks, in the order of ranks, and writes the sum to all of them. */
KERNEL void dpt_peers_sum(const peers_table *table, const peers_params p)
{
    SHARED float *data[PEERS_MOST_RANKS];
    if (!find_data(data, table, p.n_ranks)) return;
    for (u64 i = p.begin + GLOBAL_ID; i < p.end; i += p.n_items) {
        float sum = data[0][i];
        for (u32 r = 1; r < p.n_ranks; r++)
            sum += data[r][i];
        for (u32 r = 0; r < p.n_ranks; r++)
            data[r][i] = sum;
    }
}

/* Copies the root's elements to this rank. */
KERNEL void dpt_peers_copy(const peers_table *table, const peers_params p)
{
    SHARED float *data[PEERS_MOST_RANKS];
    if (!find_data(data, table, p.n_ranks)) return;
    for (u64 i = p.begin + GLOBAL_ID; i < p.end; i += p.n_items)
        data[p.rank][i] = data[p.root][i];
}

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("peers.cu", dpt_peers_sum),
    KERNEL_ROW("peers.cu", dpt_peers_copy),
    END_OF_TABLE,
};
