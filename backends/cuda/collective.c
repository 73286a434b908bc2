/* Which of the ways serves a group, and its calls (collective.h). */
#include "collective.h"
#include "tables.h"

/* A card is one rank.  Streams of one card may share what hands work to it, and what loads a kernel
   waits for all of them: what one rank waits for might stand behind its own wait.  NCCL refuses it
   as well. */
static dpt_status check_cards(const dpt_group *group)
{
    for (size_t i = 0; i < group->n_devices; i++) {
        const int ordinal = dpt_cuda_device_of(group->devices[i])->ordinal;
        for (size_t k = 0; k < i; k++)
            if (dpt_cuda_device_of(group->devices[k])->ordinal == ordinal)
                return DPT_FAIL(&group->devices[0]->error, DPT_E_UNSUPPORTED,
                                "cuda:%d stands twice, and a card is one rank", ordinal);
    }
    return DPT_OK;
}

/* The reason that is told is the first way's: that one is what people install. */
static dpt_status choose(const dpt_group *group, const dpt_collective_ops **out)
{
    dpt_error *error = &group->devices[0]->error;
    DPT_TRY(check_cards(group));
    *out = &dpt_cuda_nccl_ops;
    const dpt_status status = dpt_cuda_nccl_ops.check(group);
    if (status != DPT_E_UNSUPPORTED) return status;
    const dpt_error first = *error;
    *out = &dpt_cuda_peer_ops;
    if (dpt_cuda_peer_ops.check(group) == DPT_OK) return DPT_OK;
    *error = first;
    return status;
}

static dpt_status check(const dpt_group *group)
{
    const dpt_collective_ops *way;
    return choose(group, &way);
}

/* Only NCCL has one; ours are within a process and need none. */
static dpt_status invite(dpt_device *device, dpt_invitation *out)
{
    const dpt_status status = dpt_cuda_nccl_ops.invite(device, out);
    if (status != DPT_E_UNSUPPORTED) return status;
    *out = (dpt_invitation){.bytes = {0}};
    return DPT_OK;
}

static dpt_status create_by(const dpt_collective_ops *way, const dpt_group *group,
                            dpt_communicator **out)
{
    DPT_TRY(way->create(group, out));
    (*out)->way = way;
    return DPT_OK;
}

/* NCCL that is there and does not start, as where a container lacks shared memory, is no reason to
   go through the host. */
static dpt_status create(const dpt_group *group, dpt_communicator **out)
{
    const dpt_collective_ops *way;
    dpt_error *error = &group->devices[0]->error;
    DPT_TRY(choose(group, &way));
    const dpt_status status = create_by(way, group, out);
    if (status == DPT_OK || status == DPT_E_DEVICE_LOST || way == &dpt_cuda_peer_ops) return status;
    const dpt_error first = *error;
    if (dpt_cuda_peer_ops.check(group) == DPT_OK &&
        create_by(&dpt_cuda_peer_ops, group, out) == DPT_OK)
        return DPT_OK;
    *error = first;
    return status;
}

static void destroy(dpt_communicator *communicator)
{
    if (communicator) communicator->way->destroy(communicator);
}

static dpt_status all_reduce(dpt_communicator *communicator, size_t i, dpt_stream *stream,
                             dpt_location data, size_t count)
{
    return communicator->way->all_reduce(communicator, i, stream, data, count);
}

static dpt_status broadcast(dpt_communicator *communicator, size_t i, size_t root_rank,
                            dpt_stream *stream, dpt_location data, size_t count)
{
    return communicator->way->broadcast(communicator, i, root_rank, stream, data, count);
}

static void abort_all(dpt_communicator *communicator)
{
    communicator->way->abort(communicator);
}

/* Our own kernels do not fail by themselves: a card's failure is that card's. */
static dpt_status query(dpt_communicator *communicator, size_t i)
{
    return communicator->way->query ? communicator->way->query(communicator, i) : DPT_OK;
}

const dpt_collective_ops dpt_cuda_collective_ops = {
    .check = check,
    .invite = invite,
    .create = create,
    .destroy = destroy,
    .all_reduce = all_reduce,
    .broadcast = broadcast,
    .abort = abort_all,
    .query = query,
};
