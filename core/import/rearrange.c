/* Pixels that move between the channels and the plane of an image. */
#include "import/state.h"

#include <string.h>

/* An axis of channels, or of rows or columns, as its parts: x becomes (1, six axes), these are put
   in the order, and are merged. */
typedef struct rearrangement {
    size_t extent[DPT_MAX_RANK], order[DPT_MAX_RANK];
} rearrangement;

static dpt_status rearrange(dpti_importer *im, const rearrangement *r)
{
    enum { PARTS = 6 };
    dpt_value x;
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    dpti_extents parts = {.rank = PARTS};
    DPT_TRY(dpti_import_input(im, 0, &x));
    memcpy(parts.extent, r->extent, sizeof parts.extent);
    x = dpti_transpose(im->model, dpti_reshape(im->model, x, &parts), r->order);
    dpti_import_give(im, 0, dpti_reshape(im->model, x, &to));
    return DPT_OK;
}

static dpt_status import_depth_to_space(dpti_importer *im)
{
    const dpti_extents from = dpti_import_extents(dpti_import_fact(im, 0));
    const size_t b = (size_t)dpti_onnx_int(im->node, "blocksize", 1), h = from.extent[2],
                 w = from.extent[3], c = from.extent[1] / (b * b);
    if (strcmp(dpti_onnx_string(im->node, "mode", "DCR"), "CRD") == 0)
        return rearrange(im,
                         &(rearrangement){{from.extent[0] * c, b, b, h, w, 1}, {0, 3, 1, 4, 2, 5}});
    return rearrange(im, &(rearrangement){{from.extent[0], b, b, c, h, w}, {0, 3, 4, 1, 5, 2}});
}

static dpt_status import_space_to_depth(dpti_importer *im)
{
    const dpti_extents from = dpti_import_extents(dpti_import_fact(im, 0));
    const size_t b = (size_t)dpti_onnx_int(im->node, "blocksize", 1), c = from.extent[1];
    rearrangement r = {{from.extent[0] * c, from.extent[2] / b, b, from.extent[3] / b, b, 1},
                       {2, 4, 0, 1, 3, 5}};
    /* The attribute came with opset 28. */
    if (strcmp(dpti_onnx_string(im->node, "mode", "DCR"), "CRD") == 0)
        memcpy(r.order, (const size_t[]){0, 2, 4, 1, 3, 5}, 6 * sizeof *r.order);
    return rearrange(im, &r);
}

const dpti_import_operator dpti_import_rearrangements[] = {
    {"DepthToSpace", import_depth_to_space},
    {"SpaceToDepth", import_space_to_depth},
    {NULL, NULL},
};
