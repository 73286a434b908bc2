/* In place of nccl.c where NCCL's header is not there to build with. */
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

/* The others are not called for what these refuse. */
const dpt_collective_ops dpt_cuda_nccl_ops = {
    .check = check,
    .invite = invite,
};
