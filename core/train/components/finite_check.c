/* A device's check of some of its gradients (finite_check.h). */
#include "train/components/finite_check.h"

#include "device/buffer.h"
#include "device/operator.h"

static dpt_status create(const dpti_replica *r, size_t begin, size_t end, dpti_finite *f)
{
    const dpt_op_desc desc = {.kind = DPT_OP_CHECK_FINITE,
                              .u.check_finite = {.count = end - begin}};
    const dpti_place gradients = {&r->gradients, begin * sizeof(float)};
    void *host = NULL;
    DPT_TRY(dpti_alloc(r->device, sizeof *f->host, &f->found));
    DPT_TRY(dpti_host_alloc(r->device, sizeof *f->host, &host));
    f->host = host;
    DPT_TRY(dpti_prepare(r->device, &desc, 1, &f->op));
    f->looks = true;
    const dpti_binding binding = {.in = {gradients}, .out = {{&f->found, 0}}};
    return dpti_bind(&f->op, 1, &binding, &f->args);
}

dpt_status dpti_finite_create(const dpti_replica *replica, size_t begin, size_t end,
                              dpti_finite *out)
{
    *out = (dpti_finite){.looks = false};
    return begin == end ? DPT_OK : create(replica, begin, end, out);
}

void dpti_finite_destroy(dpti_finite *finite)
{
    dpti_device *device = finite->found.device;
    float *host = finite->host;
    dpti_release(&finite->op);
    finite->host = NULL;
    dpti_host_free(device, host);
    dpti_free(&finite->found);
    *finite = (dpti_finite){.looks = false};
}

dpt_status dpti_finite_enqueue(const dpti_finite *finite)
{
    if (!finite->looks) return DPT_OK;
    DPT_TRY(dpti_fill(&finite->found, 0, 0, sizeof *finite->host));
    DPT_TRY(dpti_run(&finite->op, 1, &finite->args));
    return dpti_download(finite->host, &finite->found, 0, sizeof *finite->host);
}

bool dpti_finite_all(const dpti_finite *finite)
{
    return !finite->looks || *finite->host == 0.0f;
}
