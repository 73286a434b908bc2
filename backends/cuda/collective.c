/* Choosing NCCL or our own kernels for a group, and passing the calls on. */
#include "collective.h"
#include "tables.h"

/* DPT_E_UNSUPPORTED if a card is in the group twice.  Streams of one card may share a hardware
   queue, and loading a kernel waits for all streams.  The work that one rank waits for could
   therefore be queued behind that rank's own wait.  NCCL refuses such a group, too. */
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

/* NCCL if it serves the group, else our own kernels.  If neither does, the failure is that of NCCL,
   which a person can install. */
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
    const dpt_collective_ops *ops;
    return choose(group, &ops);
}

/* Only NCCL has an invitation.  Our own kernels serve one process and need none. */
static dpt_status invite(dpt_device *device, dpt_invitation *out)
{
    const dpt_status status = dpt_cuda_nccl_ops.invite(device, out);
    if (status != DPT_E_UNSUPPORTED) return status;
    *out = (dpt_invitation){.bytes = {0}};
    return DPT_OK;
}

static dpt_status create_by(const dpt_collective_ops *ops, const dpt_group *group,
                            dpt_communicator **out)
{
    DPT_TRY(ops->create(group, out));
    (*out)->ops = ops;
    return DPT_OK;
}

/* If NCCL is installed and does not start, as in a container without shared memory, our own kernels
   are still faster than sums through the host. */
static dpt_status create(const dpt_group *group, dpt_communicator **out)
{
    const dpt_collective_ops *ops;
    dpt_error *error = &group->devices[0]->error;
    DPT_TRY(choose(group, &ops));
    const dpt_status status = create_by(ops, group, out);
    if (status == DPT_OK || status == DPT_E_DEVICE_LOST || ops == &dpt_cuda_peer_ops) return status;
    const dpt_error first = *error;
    if (dpt_cuda_peer_ops.check(group) == DPT_OK &&
        create_by(&dpt_cuda_peer_ops, group, out) == DPT_OK)
        return DPT_OK;
    *error = first;
    return status;
}

static void destroy(dpt_communicator *communicator)
{
    if (communicator) communicator->ops->destroy(communicator);
}

static dpt_status all_reduce(dpt_communicator *communicator, size_t i, dpt_stream *stream,
                             dpt_location data, size_t count)
{
    return communicator->ops->all_reduce(communicator, i, stream, data, count);
}

static dpt_status broadcast(dpt_communicator *communicator, size_t i, size_t root_rank,
                            dpt_stream *stream, dpt_location data, size_t count)
{
    return communicator->ops->broadcast(communicator, i, root_rank, stream, data, count);
}

static void abort_all(dpt_communicator *communicator)
{
    communicator->ops->abort(communicator);
}

/* Our own kernels have no failures beside those of their cards. */
static dpt_status query(dpt_communicator *communicator, size_t i)
{
    return communicator->ops->query ? communicator->ops->query(communicator, i) : DPT_OK;
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
