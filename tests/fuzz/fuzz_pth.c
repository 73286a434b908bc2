/* Feeds arbitrary bytes to the reader of torch.save's files: as a whole file, and as the pickle
   alone, because a fuzzer does not find checksums.  What is accepted must be a safetensors file. */
#include "fuzz.h"
#include "io/pickle.h"
#include "io/pth.h"
#include "io/safetensors.h"

enum { MOST_BYTES = 1 << 20 };

static void read_pickle(const uint8_t *data, size_t size)
{
    dpt_error error = {.status = DPT_OK};
    dpti_pickled tensors = {.list = NULL};
    const dpt_status status =
        dpti_pickle_read(&(dpti_file_bytes){"input", data, size}, &tensors, &error);
    for (const char *c = error.message; status != DPT_OK && *c; c++)
        require(*c >= ' ' && *c <= '~');
    require((status == DPT_OK) == (error.message[0] == '\0'));
    for (size_t i = 0; status == DPT_OK && i < tensors.n; i++) {
        const dpti_pickled_tensor *t = &tensors.list[i];
        require(t->rank <= DPTI_PICKLE_RANK && t->offset + t->element_bytes > 0);
        require((const uint8_t *)t->name >= data &&
                (const uint8_t *)t->name + t->name_length <= data + size);
        require((const uint8_t *)t->key >= data &&
                (const uint8_t *)t->key + t->key_length <= data + size);
    }
    free(tensors.list);
}

static void read_file(const uint8_t *data, size_t size)
{
    dpt_error error = {.status = DPT_OK};
    dpti_content content = {.bytes = NULL};
    dpti_safetensors *file = NULL;
    const dpt_status status =
        dpti_pth_convert(&(dpti_file_bytes){"input", data, size}, MOST_BYTES, &content, &error);
    if (status != DPT_OK) {
        require_refusal(status, &error);
        return;
    }
    const dpti_file_bytes bytes = {"input", content.bytes, content.n_bytes};
    if (dpti_safetensors_parse(&bytes, &file, &error) == DPT_OK)
        require(dpti_safetensors_count(file) <= size);
    else
        require(error.message[0] != '\0');
    dpti_safetensors_close(file);
    free(content.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_pickle(data, size);
    if (dpti_is_pth(data, size)) read_file(data, size);
    return 0;
}
