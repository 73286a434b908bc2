/* What both routes use: slices, chunks, messages. */
#include "collective/route.h"

#include "base/floats.h"

enum { SLICE_ALIGNMENT = 16 /* elements: a cache line */ };

dpti_range dpti_slice_of(const dpti_link *link, const dpti_collective *what, size_t r)
{
    if (what->slices) return (dpti_range){what->slices[r], what->slices[r + 1]};
    const size_t lines = (what->count + SLICE_ALIGNMENT - 1) / SLICE_ALIGNMENT;
    const size_t begin = lines * r / link->n * SLICE_ALIGNMENT;
    const size_t end = lines * (r + 1) / link->n * SLICE_ALIGNMENT;
    return (dpti_range){begin, end < what->count ? end : what->count};
}

dpti_range dpti_chunk_of(dpti_range range, size_t k, size_t size)
{
    const size_t begin = range.begin + k * size;
    return dpti_range_common(range, (dpti_range){begin, begin + size});
}

size_t dpti_count_chunks(size_t n_elements, size_t size)
{
    return n_elements == 0 ? 1 : (n_elements - 1) / size + 1;
}

size_t dpti_count_slice_chunks(const dpti_link *link, const dpti_collective *what, size_t size)
{
    size_t most = 0;
    for (size_t r = 0; r < link->n; r++) {
        const size_t n = dpti_range_size(dpti_slice_of(link, what, r));
        if (n > most) most = n;
    }
    return dpti_count_chunks(most, size);
}

void dpti_prepare_part(const dpti_unit *u, dpti_range elements)
{
    const dpti_collective *what = u->what;
    if (!what->prepare || !what->contributes[u->link->rank]) return;
    if (elements.begin < elements.end)
        what->prepare(what->user, what->data + elements.begin, dpti_range_size(elements));
}

void dpti_look_at_sum(const dpti_unit *u, dpti_range elements)
{
    const dpti_collective *what = u->what;
    if (what->finite && !dpti_all_finite(what->data + elements.begin, dpti_range_size(elements)))
        *what->finite = false;
}

static void add(dpti_unit *u, dpt_message message, size_t n_elements)
{
    const dpti_packing *packing = u->what->packing;
    message.channel = u->channel;
    message.n_bytes = packing ? packing->n_bytes(n_elements) : n_elements * sizeof(float);
    if (n_elements > 0) u->messages[u->n_messages++] = message;
}

void dpti_unit_send(dpti_unit *u, size_t peer, float *data, size_t n_elements)
{
    add(u, (dpt_message){.peer = peer, .data = data}, n_elements);
}

void dpti_unit_receive(dpti_unit *u, size_t peer, float *data, size_t n_elements)
{
    add(u, (dpt_message){.receive = true, .peer = peer, .data = data}, n_elements);
}
