/* Feeds arbitrary bytes to the reader of safetensors and checks every accepted file: tensors are
   complete, within the file, and follow one another; and the metadata about images and classes are
   in bounds. */
#include "checkpoint/origin.h"
#include "fuzz.h"
#include "graph/builder.h"
#include "io/safetensors.h"

static void check_file(const dpti_safetensors *file, const uint8_t *data, size_t size)
{
    const uint8_t *at = NULL;
    volatile uint8_t sum = 0; /* so that the bytes are read */
    for (size_t i = 0; i < dpti_safetensors_count(file); i++) {
        const dpti_tensor *tensor = dpti_safetensors_get(file, i);
        require(tensor->rank <= DPTI_TENSOR_MAX_RANK);
        require(dpti_safetensors_find(file, tensor->name) == tensor);
        require(!at || tensor->data == at);
        at = (const uint8_t *)tensor->data + tensor->n_bytes;
        require((const uint8_t *)tensor->data >= data + 8 && at <= data + size);
        for (size_t k = 0; k < tensor->n_bytes; k++)
            sum = (uint8_t)(sum + ((const uint8_t *)tensor->data)[k]);
    }
    require(!at || at == data + size);
    require(!dpti_safetensors_metadata(file, "format") ||
            strlen(dpti_safetensors_metadata(file, "format")) < size);
}

static void check_info(const dpt_weights_info *info)
{
    const size_t pixels = info->height * info->width;
    require(info->stat_channels <= DPTI_MAX_STAT_CHANNELS);
    require(memchr(info->model, 0, sizeof info->model) &&
            memchr(info->dataset, 0, sizeof info->dataset));
    require((pixels == 0) == (info->channels == 0) && !(info->channels == 0 && info->class_names));
    if (pixels == 0) return;
    require(info->height <= DPTI_MAX_RECORD && info->width <= DPTI_MAX_RECORD);
    require(info->channels <= DPTI_MAX_RECORD && pixels * info->channels <= DPTI_MAX_RECORD);
    require(info->classes >= 1 && info->classes <= DPTI_MAX_RECORD);
    for (size_t c = 0; info->class_names && c < info->classes; c++) {
        const char *name = info->class_names[c];
        require(name[0] && strlen(name) < DPTI_CLASS_NAMES_BYTES);
        for (; *name; name++)
            require((unsigned char)*name >= ' ' && *name != 0x7f);
    }
}

static void check_origin(const dpti_safetensors *file)
{
    dpt_error error = {.status = DPT_OK};
    dpt_weights_info info = {.size = sizeof info};
    const dpt_status status = dpti_origin_read(file, "input", &info, &error);
    if (status == DPT_OK)
        check_info(&info);
    else
        require_refusal(status, &error);
    dpt_weights_release(&info);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dpt_error error = {.status = DPT_OK};
    dpti_safetensors *file = NULL;
    const dpt_status status =
        dpti_safetensors_parse(&(dpti_file_bytes){"input", data, size}, &file, &error);
    if (status == DPT_OK) {
        check_file(file, data, size);
        check_origin(file);
        dpti_safetensors_close(file);
    } else {
        require(status == DPT_E_FORMAT || status == DPT_E_NO_MEMORY);
        require(file == NULL && error.message[0]);
        for (const char *c = error.message; *c; c++)
            require((unsigned char)*c >= ' ' && *c != 0x7f);
    }
    return 0;
}
