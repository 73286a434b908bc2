/* Replaces nccl.c in a build without NCCL's header. */
#include "collective.h"

static dpt_status refuse(dpt_device *device)
{
    return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED, "this build is without NCCL");
}

static dpt_status check(const dpt_group *group)
{
    return refuse(group->devices[0]);
}

static dpt_status invite(dpt_device *device, dpt_invitation *out)
{
    (void)out;
    return refuse(device);
}

/* The other functions are not called, because `check` refuses every group. */
const dpt_collective_ops dpt_cuda_nccl_ops = {
    .check = check,
    .invite = invite,
};
