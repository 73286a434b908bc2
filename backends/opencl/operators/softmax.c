#include "operators.h"

dpt_status dpt_cl_prepare_softmax(dpt_op *op)
{
    return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED, "not written yet");
}
