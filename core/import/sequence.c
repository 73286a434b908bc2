/* Parts of a value that the file splits into a sequence. */
#include "import/state.h"

/* The sequence is what is split. */
static dpt_status import_split(dpti_importer *im)
{
    dpt_value x;
    DPT_TRY(dpti_import_input(im, 0, &x));
    dpti_import_give(im, 0, x);
    return DPT_OK;
}

static dpt_status import_part(dpti_importer *im)
{
    dpti_onnx_part part;
    dpt_value x;
    DPT_TRY(dpti_import_input(im, 0, &x));
    DPT_TRY(dpti_onnx_find_part(im->graph, im->node, &part, im->error));
    dpti_import_give(im, 0,
                     dpti_slice(im->model, x,
                                (dpti_cut){.axis = part.axis,
                                           .begin = (size_t)part.begin,
                                           .count = (size_t)part.size,
                                           .step = 1}));
    return DPT_OK;
}

const dpti_import_operator dpti_import_sequences[] = {
    {"SequenceAt", import_part},
    {"SplitToSequence", import_split},
    {NULL, NULL},
};
