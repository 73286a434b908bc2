/* Feeds arbitrary bytes to the reader of token files, in each form, and converts the ids that it
   finds. */
#include "data/tokens.h"
#include "fuzz.h"

static void read_file(const uint8_t *data, size_t size, dpti_token_form form)
{
    const size_t n_head = size < DPTI_TOKEN_HEAD ? size : DPTI_TOKEN_HEAD;
    const dpti_token_file file = {{"input", data, n_head}, size, form};
    dpti_token_layout layout;
    dpt_error error = {.status = DPT_OK};
    const dpt_status status = dpti_token_layout_find(&file, &layout, &error);
    if (status != DPT_OK) {
        require_refusal(status, &error);
        return;
    }
    require(layout.n > 0 && layout.offset <= size);
    require(layout.n <= (size - layout.offset) / layout.bytes);
    require(layout.offset + layout.n * layout.bytes == size);
    int32_t *ids = malloc(layout.n * sizeof *ids);
    if (!ids) return;
    const size_t good = dpti_token_convert(&layout, data + layout.offset, layout.n, ids);
    require(good <= layout.n);
    for (size_t i = 0; i < good; i++)
        require(ids[i] >= 0);
    free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_file(data, size, DPTI_TOKENS_BYTES);
    read_file(data, size, DPTI_TOKENS_U16);
    read_file(data, size, DPTI_TOKENS_U32);
    return 0;
}
