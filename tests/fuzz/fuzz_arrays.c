/* Feeds arbitrary bytes to the readers of arrays: as a NumPy array, as a zip file of such arrays,
   as an array packed into a whole zip file, and as a table of numbers or of pictures.  Makes a data
   set of what they accept. */
#include "base/text.h"
#include "data/data.h"
#include "data/picture_table.h"
#include "fuzz.h"

#include <libdeflate.h>

static void check_array(const dpti_array *a)
{
    size_t n = 1;
    volatile uint8_t sum = 0; /* so that the bytes are read */
    require(a->rank >= 1 && a->rank <= DPTI_ARRAY_RANK);
    for (size_t i = 0; i < a->rank; i++) {
        require(a->shape[i] > 0);
        n *= a->shape[i];
    }
    require(n == a->n);
    for (size_t i = 0; i < n * dpt_dtype_bytes(a->dtype); i++)
        sum = (uint8_t)(sum + ((const uint8_t *)a->data)[i]);
}

static void check_refusal(dpt_status status, const dpt_error *error)
{
    require(status == DPT_E_FORMAT || status == DPT_E_NO_MEMORY);
    require(strncmp(error->message, "input", 5) == 0 ||
            strncmp(error->message, "no memory", 9) == 0);
    require(error->message[dpti_plain_bytes(error->message)] == 0);
}

/* Frees the arrays. */
static void make_data(dpti_arrays *arrays)
{
    const dpti_arrays_origin origin = {.name = "fuzz", .source = "input", .divided = arrays->part};
    dpt_error error = {.status = DPT_OK};
    dpt_dataset *data = NULL;
    for (size_t i = 0; i < arrays->n; i++) {
        require(arrays->items[i].name &&
                !arrays->items[i].name[dpti_plain_bytes(arrays->items[i].name)]);
        check_array(&arrays->items[i]);
    }
    const dpt_status status = dpti_dataset_of_arrays(arrays, &origin, &data, &error);
    require((status == DPT_OK) == (data != NULL) && arrays->n == 0);
    if (status != DPT_OK) {
        check_refusal(status, &error);
        return;
    }
    require(data->n_inputs > 0 && data->classes > 0);
    const dpti_data_input *in = &data->inputs[0];
    dpti_wanted_input wanted = {.name = in->name, .rank = 1, .extent = {in->n}, .stride = {1}};
    const dpti_wanted_record record = {.model = "m",
                                       .inputs = &wanted,
                                       .n_inputs = 1,
                                       .height = 1,
                                       .width = 1,
                                       .channels = in->n,
                                       .outputs = data->classes};
    (void)dpti_dataset_content(data);
    require(dpti_dataset_arrange(data, &record, &error) == DPT_OK ||
            error.status == DPT_E_INVALID || error.status == DPT_E_NO_MEMORY);
    (void)dpti_dataset_content(data);
    dpt_dataset_destroy(data);
}

static void parse_npy(const dpti_file_bytes *file)
{
    dpt_error error = {.status = DPT_OK};
    dpti_array array = {.name = NULL};
    const dpt_status status = dpti_npy_parse(file, &array, &error);
    if (status == DPT_OK)
        check_array(&array);
    else
        check_refusal(status, &error);
    dpti_array_free(&array);
}

static void parse_npz(const dpti_file_bytes *file, dpt_part part, bool answers_only)
{
    const dpti_npz_use use = {.part = part, .answers_only = answers_only};
    dpt_error error = {.status = DPT_OK};
    dpti_arrays arrays = {.n = 0};
    const dpt_status status = dpti_npz_parse(file, &use, &arrays, &error);
    if (status == DPT_OK) {
        make_data(&arrays);
    } else {
        check_refusal(status, &error);
        require(arrays.n == 0);
    }
}

static void parse_table(const dpti_file_bytes *file, const char *labels)
{
    dpt_error error = {.status = DPT_OK};
    dpti_arrays arrays = {.n = 0};
    const dpt_status status = dpti_table_parse(file, labels, &arrays, &error);
    if (status == DPT_OK)
        make_data(&arrays);
    else
        check_refusal(status, &error);
}

/* As a table of pictures, and as a list of them. */
static void parse_pictures(const dpti_file_bytes *file)
{
    static const dpti_picture_columns columns[] = {
        {"x", "y", DPT_TRAIN}, {"a/{x}.png", "y", DPT_TEST}, {NULL, NULL, DPT_TRAIN}};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        dpt_error error = {.status = DPT_OK};
        dpti_picture_rows rows = {.count = 0};
        const dpt_status status = dpti_picture_rows_parse(file, &columns[i], &rows, &error);
        if (status != DPT_OK) check_refusal(status, &error);
        require((status == DPT_OK && !rows.unlabelled) == (rows.count > 0));
        for (size_t k = 0; k < rows.count; k++)
            require(rows.paths[k][0] && rows.labels[k][0] && rows.lines[k] > 0);
        dpti_picture_rows_free(&rows);
    }
}

static void put(uint8_t *to, size_t value, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

/* A zip file with one stored array, whose checksum is right: a fuzzer does not find it. */
static void parse_packed(const uint8_t *data, size_t size)
{
    enum { LOCAL = 30 + 5, ENTRY = 46 + 5, END = 22 };
    const uint32_t crc = libdeflate_crc32(0, data, size);
    uint8_t *zip = calloc(1, LOCAL + size + ENTRY + END);
    if (!zip) return;
    uint8_t *entry = zip + LOCAL + size, *end = entry + ENTRY;
    memcpy(zip, "PK\3\4", 4);
    put(zip + 26, 5, 2);
    memcpy(zip + 30, "x.npy", 5);
    if (size > 0) memcpy(zip + LOCAL, data, size);
    memcpy(entry, "PK\1\2", 4);
    put(entry + 16, crc, 4);
    put(entry + 20, size, 4);
    put(entry + 24, size, 4);
    put(entry + 28, 5, 2);
    memcpy(entry + 46, "x.npy", 5);
    memcpy(end, "PK\5\6", 4);
    put(end + 12, ENTRY, 4);
    put(end + 16, LOCAL + size, 4);
    parse_npz(&(dpti_file_bytes){"input", zip, LOCAL + size + ENTRY + END}, DPT_TRAIN, false);
    free(zip);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const dpti_file_bytes file = {"input", data, size};
    parse_npy(&file);
    parse_npz(&file, DPT_TRAIN, false);
    parse_npz(&file, DPT_TRAIN, true);
    parse_npz(&file, DPT_TEST, false);
    parse_packed(data, size);
    parse_table(&file, "y");
    parse_table(&file, "y,x");
    parse_pictures(&file);
    return 0;
}
