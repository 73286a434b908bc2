/* Feeds any bytes to the safetensors reader and checks what must hold of every file that is
   accepted: tensors that lie one behind the other, whole, within the file. */
#include "fuzz.h"
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dpt_error error = {.status = DPT_OK};
    dpti_safetensors *file = NULL;
    const dpt_status status = dpti_safetensors_parse("input", data, size, &file, &error);
    if (status == DPT_OK) {
        check_file(file, data, size);
        dpti_safetensors_close(file);
    } else {
        require(status == DPT_E_FORMAT || status == DPT_E_NO_MEMORY);
        require(file == NULL && error.message[0]);
        for (const char *c = error.message; *c; c++)
            require((unsigned char)*c >= ' ' && *c != 0x7f);
    }
    return 0;
}
