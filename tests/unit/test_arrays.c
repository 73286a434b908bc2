/* Tests data sets of arrays: NumPy files of every type and order, zip files of them, tables of
   numbers, what is refused, and records in the order of a model. */
#include "data/data.h"
#include "harness.h"
#include "onnx_files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };

/* ---- NumPy arrays ---------------------------------------------------------------------------- */

/* Writes a file of format `version`.  Returns its bytes. */
static size_t write_npy(uint8_t *to, unsigned version, const char *header, const void *elements,
                        size_t n_bytes)
{
    const size_t n = strlen(header), length_bytes = version == 1 ? 2 : 4;
    memcpy(to, "\x93NUMPY", 6);
    to[6] = (uint8_t)version;
    to[7] = 0;
    for (size_t i = 0; i < length_bytes; i++)
        to[8 + i] = (uint8_t)(n >> (8 * i));
    memcpy(to + 8 + length_bytes, header, n);
    memcpy(to + 8 + length_bytes + n, elements, n_bytes);
    return 8 + length_bytes + n + n_bytes;
}

static dpt_status parse_npy(const char *header, const void *elements, size_t n_bytes,
                            dpti_array *out, dpt_error *error)
{
    uint8_t file[MOST];
    const size_t n = write_npy(file, 1, header, elements, n_bytes);
    return dpti_npy_parse(&(dpti_file_bytes){"some/file", file, n}, out, error);
}

static const struct {
    const char *type;
    uint8_t bytes[16]; /* two elements */
    size_t n_bytes;
    dpt_dtype dtype;
    double first, second;
} types[] = {
    {"|b1", {0, 7}, 2, DPT_I32, 0, 1},
    {"|u1", {0, 255}, 2, DPT_U8, 0, 255},
    {"|i1", {0x80, 3}, 2, DPT_I32, -128, 3},
    {"<i2", {0xfe, 0xff, 1, 2}, 4, DPT_I32, -2, 513},
    {">i2", {0xff, 0xfe, 2, 1}, 4, DPT_I32, -2, 513},
    {"<u2", {0xfe, 0xff, 1, 2}, 4, DPT_I32, 65534, 513},
    {"<i4", {0x9c, 0xff, 0xff, 0xff, 1, 0, 0, 0}, 8, DPT_I32, -100, 1},
    {">i4", {0xff, 0xff, 0xff, 0x9c, 0, 0, 0, 1}, 8, DPT_I32, -100, 1},
    {">u4", {0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1}, 8, DPT_I32, 2147483647, 1},
    {"<i8", {0x9c, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 5}, 16, DPT_I32, -100, 5},
    {">u8", {0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 9}, 16, DPT_I32, 258, 9},
    {"<f2", {0x00, 0x3e, 0x01, 0x80}, 4, DPT_F32, 1.5, -5.9604644775390625e-8},
    {">f2", {0x3e, 0x00, 0x7b, 0xff}, 4, DPT_F32, 1.5, 65504},
    {"<f4", {0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0}, 8, DPT_F32, 1.5, -2},
    {">f4", {0x3f, 0xc0, 0, 0, 0xc0, 0, 0, 0}, 8, DPT_F32, 1.5, -2},
    {"<f8", {0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0xc0}, 16, DPT_F32, 1.5, -2},
    {">f8", {0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0}, 16, DPT_F32, 1.5, -2},
};

static double element(const dpti_array *a, size_t i)
{
    if (a->dtype == DPT_U8) return ((const uint8_t *)a->data)[i];
    if (a->dtype == DPT_I32) return ((const int32_t *)a->data)[i];
    return (double)((const float *)a->data)[i];
}

static void reads_every_type(test *t)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char header[200];
        dpti_array array = {.name = NULL};
        dpt_error error = {.status = DPT_OK};
        snprintf(header, sizeof header,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (2,), }  \n", types[i].type);
        if (!CHECK_OK(parse_npy(header, types[i].bytes, types[i].n_bytes, &array, &error)))
            FAIL("%s: %s", types[i].type, error.message);
        CHECK(array.dtype == types[i].dtype);
        CHECK_SIZE(array.n, 2);
        if (array.data &&
            (element(&array, 0) != types[i].first || element(&array, 1) != types[i].second))
            FAIL("%s: %g and %g", types[i].type, element(&array, 0), element(&array, 1));
        CHECK_SIZE((uintptr_t)array.data % 64, 0);
        dpti_array_free(&array);
    }
}

/* Element (i, j, k) of 2 x 3 x 2 is 100 i + 10 j + k in both orders of axes. */
static void reads_both_orders(test *t)
{
    uint8_t c[12], fortran[12];
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < 3; j++)
            for (size_t k = 0; k < 2; k++) {
                const uint8_t value = (uint8_t)(100 * i + 10 * j + k);
                c[(i * 3 + j) * 2 + k] = value;
                fortran[i + 2 * (j + 3 * k)] = value;
            }
    dpti_array array = {.name = NULL};
    REQUIRE_OK(parse_npy("{\"shape\":(2,3,2),\"fortran_order\":True,\"descr\":\"|u1\"}", fortran,
                         sizeof fortran, &array, NULL));
    CHECK_SIZE(array.rank, 3);
    CHECK(memcmp(array.data, c, sizeof c) == 0);
    dpti_array_free(&array);
    REQUIRE_OK(parse_npy("{'descr':'|u1','fortran_order':False,'shape':(2,3,2)}", c, sizeof c,
                         &array, NULL));
    CHECK(memcmp(array.data, c, sizeof c) == 0);
    dpti_array_free(&array);
}

static void reads_every_version(test *t)
{
    static const char header[] = "{'descr':'|u1','fortran_order':False,'shape':(3,)}\n";
    uint8_t file[MOST];
    for (unsigned version = 0; version <= 4; version++) {
        dpti_array array = {.name = NULL};
        dpt_error error = {.status = DPT_OK};
        const size_t n = write_npy(file, version, header, "abc", 3);
        const dpt_status status = dpti_npy_parse(&(dpti_file_bytes){"f", file, n}, &array, &error);
        CHECK_STATUS(status, version >= 1 && version <= 3 ? DPT_OK : DPT_E_FORMAT);
        dpti_array_free(&array);
    }
}

static const struct {
    const char *header;
    size_t n_bytes; /* of elements, which are 0xff */
    const char *says;
} wrong[] = {
    {"", 4, "header"},
    {"{'descr':'<f4','fortran_order':False,'shape':(1,)", 4, "header"},
    {"{'descr':'<f4','fortran_order':False}", 4, "header"},
    {"{'descr':'<f4','fortran_order':False,'shape':(1,),'shape':(1,)}", 4, "header"},
    {"{'descr':'<f4','fortran_order':Maybe,'shape':(1,)}", 4, "header"},
    {"{'descr':[('a','<f4')],'fortran_order':False,'shape':(1,)}", 4, "header"},
    {"{'descr':'<f4','fortran_order':False,'shape':(1,1,1,1,1,1,1,1,1)}", 4, "header"},
    {"{'descr':'<f4','fortran_order':False,'shape':(-1,)}", 4, "header"},
    {"{'descr':'<f4','fortran_order':False,'shape':(1,)} x", 4, "header"},
    {"{'descr':'<f4','fortran_order':False,'shape':(99999999999999999999,)}", 4, "header"},
    {"{'descr':'<c8','fortran_order':False,'shape':(1,)}", 8, "type <c8"},
    {"{'descr':'<U3','fortran_order':False,'shape':(1,)}", 12, "type <U3"},
    {"{'descr':'<V2','fortran_order':False,'shape':(1,)}", 2, "type <V2"}, /* bfloat16 of numpy */
    {"{'descr':'','fortran_order':False,'shape':(1,)}", 4, "type "},
    {"{'descr':'<f4','fortran_order':False,'shape':()}", 4, "single number"},
    {"{'descr':'<f4','fortran_order':False,'shape':(0,)}", 0, "axis 0"},
    {"{'descr':'<f4','fortran_order':False,'shape':(4294967296,4294967296)}", 4, "impossible"},
    {"{'descr':'<f4','fortran_order':False,'shape':(2305843009213693952,)}", 4, ""},
    {"{'descr':'<f4','fortran_order':False,'shape':(2,)}", 4, "promises 8 bytes"},
    {"{'descr':'<f4','fortran_order':False,'shape':(1,)}", 5, "promises 4 bytes"},
    {"{'descr':'<u8','fortran_order':False,'shape':(1,)}", 8, "element 0 is too large"},
    {"{'descr':'<u4','fortran_order':False,'shape':(2,)}", 8, "element 0 is too large"},
};

static void refuses_other_arrays(test *t)
{
    uint8_t ones[16];
    memset(ones, 0xff, sizeof ones);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        dpti_array array = {.name = NULL};
        dpt_error error = {.status = DPT_OK};
        if (!CHECK_STATUS(parse_npy(wrong[i].header, ones, wrong[i].n_bytes, &array, &error),
                          DPT_E_FORMAT))
            FAIL("not refused: %s", wrong[i].header);
        CHECK_CONTAINS(error.message, "some/file");
        CHECK_CONTAINS(error.message, wrong[i].says);
        dpti_array_free(&array);
    }
}

/* ---- Zip files ------------------------------------------------------------------------------- */

static size_t read_kept(const char *name, uint8_t out[MOST])
{
    char path[ONNX_PATH_BYTES];
    FILE *file = fopen(onnx_path(name, path), "rb");
    const size_t n = file ? fread(out, 1, MOST, file) : 0;
    if (file) fclose(file);
    return n;
}

static void reads_kept_files(test *t)
{
    uint8_t bytes[MOST];
    const size_t n = read_kept("several/masked.npz", bytes);
    dpti_arrays arrays = {.n = 0};
    const dpti_npz_use all = {.part = DPT_TRAIN}, answers = {.answers_only = true};
    REQUIRE_OK(dpti_npz_parse(&(dpti_file_bytes){"f", bytes, n}, &all, &arrays, NULL));
    CHECK(arrays.part == NULL);
    REQUIRE(arrays.n == 4);
    CHECK(strcmp(arrays.items[0].name, "ids") == 0 && strcmp(arrays.items[3].name, "labels") == 0);
    CHECK_SIZE(arrays.items[0].shape[0], 8);
    CHECK_SIZE(arrays.items[0].shape[1], 6);
    CHECK(element(&arrays.items[3], 5) == 2);
    CHECK_SIZE(dpti_arrays_classes(&arrays), 3);
    dpti_arrays_free(&arrays);
    REQUIRE_OK(dpti_npz_parse(&(dpti_file_bytes){"f", bytes, n}, &answers, &arrays, NULL));
    CHECK_SIZE(arrays.n, 1);
    dpti_arrays_free(&arrays);
}

/* Every damage of one byte, and every end, gives the arrays or one line that names the file. */
static void survives_damage(test *t)
{
    uint8_t bytes[MOST], damaged[MOST];
    const size_t n = read_kept("several/tagged.npz", bytes);
    size_t n_refused = 0, n_tries = 0;
    REQUIRE(n > 100);
    for (size_t i = 0; i < 2 * n; i++, n_tries++) {
        const dpti_npz_use all = {.part = DPT_TRAIN};
        dpti_arrays arrays = {.n = 0};
        dpt_error error = {.status = DPT_OK};
        const size_t length = i < n ? i : n;
        memcpy(damaged, bytes, n);
        if (i >= n) damaged[i - n] ^= 0x55;
        const dpt_status status =
            dpti_npz_parse(&(dpti_file_bytes){"some/file", damaged, length}, &all, &arrays, &error);
        n_refused += status != DPT_OK;
        if (status != DPT_OK &&
            (!strstr(error.message, "some/file") || strchr(error.message, '\n')))
            FAIL("%zu: %s", i, error.message);
        if (i < n && status == DPT_OK) FAIL("%zu of %zu bytes are no whole file", i, n);
        dpti_arrays_free(&arrays);
    }
    CHECK(n_refused > n && n_tries == 2 * n);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static dpt_status parse_table(const char *text, dpti_arrays *out, dpt_error *error)
{
    const dpti_file_bytes file = {"some/file", (const uint8_t *)text, strlen(text)};
    return dpti_table_parse(&file, "kind", out, error);
}

static void reads_tables(test *t)
{
    static const char *const tables[] = {
        "a,kind,\"b, too\"\n1,0,2.5\n-3e2,2,4\n",
        "\357\273\277a\tkind\tb\r\n1\t0\t2.5\r\n-3e2\t2\t 4 \r\n\r\n",
        "\"a\"\"\nx\",\"kind\",b\n\"1\",0,2.5\n-300,\"2\",+4"};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        dpti_arrays arrays = {.n = 0};
        dpt_error error = {.status = DPT_OK};
        if (!CHECK_OK(parse_table(tables[i], &arrays, &error))) {
            FAIL("table %zu: %s", i, error.message);
            continue;
        }
        const dpti_array *x = &arrays.items[0], *y = &arrays.items[1];
        CHECK(x->n == 4 && x->shape[0] == 2 && x->shape[1] == 2 && y->n == 2);
        CHECK(element(x, 0) == 1 && element(x, 1) == 2.5 && element(x, 2) == -300 &&
              element(x, 3) == 4);
        CHECK(y->dtype == DPT_I32 && element(y, 0) == 0 && element(y, 1) == 2);
        dpti_arrays_free(&arrays);
    }
    dpti_arrays arrays = {.n = 0};
    REQUIRE_OK(parse_table("kind,a\n1,2\n1.0,3\n", &arrays, NULL));
    CHECK(arrays.items[1].dtype == DPT_F32 && element(&arrays.items[1], 1) == 1);
    dpti_arrays_free(&arrays);
}

/* Several columns, in the order of the list; a column whose name has a comma is itself meant. */
static void reads_several_targets(test *t)
{
    static const char text[] = "b,x,a\n1,2,3000000000\n4,5.5,6\n", odd[] = "\"a,b\",a\n7,8\n";
    const dpti_file_bytes file = {"some/file", (const uint8_t *)text, sizeof text - 1},
                          other = {"some/file", (const uint8_t *)odd, sizeof odd - 1};
    dpti_arrays arrays = {.n = 0};
    dpt_error error = {.status = DPT_OK};
    REQUIRE_OK(dpti_table_parse(&file, "a,b", &arrays, &error));
    const dpti_array *x = &arrays.items[0], *y = &arrays.items[1];
    CHECK_TEXT(y->name, "targets");
    CHECK(y->dtype == DPT_F32 && y->rank == 2 && y->shape[0] == 2 && y->shape[1] == 2 && y->n == 4);
    CHECK(element(y, 0) == 3e9 && element(y, 1) == 1 && element(y, 2) == 6 && element(y, 3) == 4);
    CHECK(x->n == 2 && x->shape[1] == 1 && element(x, 0) == 2 && element(x, 1) == 5.5);
    dpti_arrays_free(&arrays);
    REQUIRE_OK(dpti_table_parse(&other, "a,b", &arrays, &error));
    CHECK_TEXT(arrays.items[1].name, "y");
    CHECK(element(&arrays.items[1], 0) == 7 && element(&arrays.items[0], 0) == 8);
    dpti_arrays_free(&arrays);
    static const struct {
        const char *labels, *says;
    } refused[] = {{"a,c", "no column c"},
                   {"a,a", "no column a, or the name is given twice"},
                   {"a,b,x", "no column but a,b,x"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        CHECK_STATUS(dpti_table_parse(&file, refused[i].labels, &arrays, &error), DPT_E_FORMAT);
        CHECK_CONTAINS(error.message, refused[i].says);
    }
}

static const struct {
    const char *text, *says;
} wrong_tables[] = {
    {"", "no column kind"},
    {"a,b\n1,2\n", "no column kind; the columns are a, b"},
    {"kind\n1\n", "no column but kind"},
    {"kind,kind\n1,2\n", "two columns"},
    {"a,kind\n", "no rows"},
    {"a,kind\n1\n", "line 2 has 1 fields"},
    {"a,kind\n1,2\n\n1,2\n", "line 3 has 1 fields"},
    {"a,kind\n1,2,3\n", "line 2 has 3 fields"},
    {"a,kind\n1,2\nx,2\n", "line 3, column 1: x is no number"},
    {"a,kind\n1,\n", "line 2, column 2: the field is empty"},
    {"a,kind\n\"1\n\",2\n", "line 2, column 1"},
    {"a,kind\n\"1,2\n", "a quote is not closed"},
    {"a,kind\n\"1\"x,2\n", "behind a closing quote"},
    {"a,kind\n1\"1\",2\n", "a quote in a field"},
    {"a,kind\nnan,2\n", "column 1: nan is no number"},
    {"a,kind\n1e999,2\n", "is no number"},
    {"a,kind\n1e39,2\n", "is no number"},
    {"a,kind\n0x1,2\n", "is no number"},
    {"a,kind\n1 2,2\n", "is no number"},
    {"a,kind\n1,99999999999\n", "column 2"},
    {"a,kind\n\x01,2\n", "column 1: the field is no number"},
};

static void refuses_other_tables(test *t)
{
    for (size_t i = 0; i < sizeof wrong_tables / sizeof *wrong_tables; i++) {
        dpti_arrays arrays = {.n = 0};
        dpt_error error = {.status = DPT_OK};
        if (!CHECK_STATUS(parse_table(wrong_tables[i].text, &arrays, &error), DPT_E_FORMAT))
            FAIL("not refused: %s", wrong_tables[i].text);
        CHECK_CONTAINS(error.message, "some/file");
        CHECK_CONTAINS(error.message, wrong_tables[i].says);
        dpti_arrays_free(&arrays);
    }
}

/* ---- Data sets ------------------------------------------------------------------------------- */

enum { COUNT = 3 };

static const uint8_t bytes[COUNT * 2] = {0, 255, 1, 2, 3, 4};
static const int32_t ids[COUNT * 2] = {4, 0, 1, 2, 3, -1}, labels[COUNT] = {0, 2, 1};
static const float numbers[COUNT * 4] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

static void make_record(test *t, dpt_context *context, dpt_dataset **out)
{
    const dpt_dataset_array arrays[] = {
        {"bytes", DPT_U8, 2, {COUNT, 2}, bytes},
        {"ids", DPT_I32, 2, {COUNT, 2}, ids},
        {"labels", DPT_I32, 1, {COUNT}, labels},
        {"numbers", DPT_F32, 3, {COUNT, 2, 2}, numbers},
    };
    REQUIRE_OK(dpt_dataset_from_arrays(context, arrays, 4, out));
}

/* Channels last, real numbers and bytes beside ids, in another order than the data set's. */
static void arranges_records(test *t)
{
    dpt_context *context = NULL;
    dpt_dataset *data = NULL;
    dpt_error error = {.status = DPT_OK};
    REQUIRE_OK(dpt_context_create(&context));
    make_record(t, context, &data);
    dpti_wanted_input inputs[] = {
        {.name = "numbers", .rank = 3, .extent = {1, 2, 2}, .stride = {9, 1, 2}},
        {.name = "bytes", .rank = 1, .extent = {2}, .stride = {1}, .offset = 4},
        {.name = "ids", .ids = true, .rank = 1, .extent = {2}, .stride = {1}, .offset = 6},
    };
    dpti_wanted_record wanted = {.model = "m",
                                 .inputs = inputs,
                                 .n_inputs = 3,
                                 .height = 1,
                                 .width = 1,
                                 .channels = 8,
                                 .outputs = 7};
    inputs[2].most_ids = 5;
    CHECK_STATUS(dpti_dataset_arrange(data, &wanted, &error), DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "id -1 at place 1 of sample 2");
    inputs[2].most_ids = 0;
    inputs[1].name = "other";
    CHECK_STATUS(dpti_dataset_arrange(data, &wanted, &error), DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "no array other");
    CHECK_CONTAINS(error.message, "bytes, ids, numbers");
    inputs[1] = (dpti_wanted_input){.name = "bytes", .rank = 1, .extent = {3}, .stride = {1}};
    CHECK_STATUS(dpti_dataset_arrange(data, &wanted, &error), DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "has the shape (2), but model m reads (3)");
    inputs[1] =
        (dpti_wanted_input){.name = "bytes", .rank = 1, .extent = {2}, .stride = {1}, .offset = 4};
    REQUIRE_OK(dpti_dataset_arrange(data, &wanted, &error));
    CHECK(data->mixed && data->dtype == DPT_F32 && data->classes == 7);
    CHECK_SIZE(data->inputs[2].vocabulary, 5);
    for (size_t s = 0; s < COUNT; s++) {
        const float *record = (const float *)data->images + 8 * s;
        int32_t id[2];
        memcpy(id, record + 6, sizeof id);
        for (size_t i = 0; i < 2; i++) {
            CHECK(record[4 + i] == (float)bytes[2 * s + i] / 255.0f);
            CHECK(id[i] == ids[2 * s + i]);
            for (size_t k = 0; k < 2; k++)
                CHECK(record[i + 2 * k] == numbers[4 * s + 2 * i + k]);
        }
    }
    CHECK_STATUS(dpti_dataset_arrange(data, &wanted, &error), DPT_E_STATE);
    dpt_dataset_destroy(data);
    dpt_context_destroy(context);
}

static void refuses_data(test *t, dpt_context *context, const dpt_dataset_array *arrays, size_t n,
                         const char *says)
{
    dpt_dataset *data = NULL;
    CHECK_STATUS(dpt_dataset_from_arrays(context, arrays, n, &data), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(context), says);
    CHECK(!data);
}

static void refuses_other_data(test *t)
{
    static const int32_t bad[COUNT] = {0, 1, -100};
    static const float real[COUNT] = {0, 1, NAN};
    dpt_context *context = NULL;
    REQUIRE_OK(dpt_context_create(&context));
    const dpt_dataset_array x = {"x", DPT_U8, 2, {COUNT, 2}, bytes};
    refuses_data(t, context, &x, 0, "1 to 64");
    refuses_data(t, context, (dpt_dataset_array[]){x, x}, 2, "two arrays");
    refuses_data(t, context, (dpt_dataset_array[]){x, {"a", DPT_BF16, 1, {COUNT}, bytes}}, 2,
                 "array a");
    refuses_data(t, context, (dpt_dataset_array[]){x, {"a", DPT_U8, 0, {0}, bytes}}, 2, "array a");
    refuses_data(t, context, (dpt_dataset_array[]){x, {"a", DPT_U8, 1, {2}, bytes}}, 2, "a has 2");
    refuses_data(t, context, &(dpt_dataset_array){"y", DPT_I32, 1, {COUNT}, labels}, 1, "no array");
    refuses_data(t, context, (dpt_dataset_array[]){x, {"y", DPT_I32, 1, {COUNT}, bad}}, 2,
                 "label -100 of sample 2");
    refuses_data(t, context, (dpt_dataset_array[]){x, {"y", DPT_F32, 1, {COUNT}, real}}, 2,
                 "sample 2 is not finite");
    refuses_data(t, context, (dpt_dataset_array[]){x, {"labels", DPT_F32, 1, {COUNT}, real}}, 2,
                 "labels are integers");
    refuses_data(t, context,
                 (dpt_dataset_array[]){x,
                                       {"y", DPT_I32, 1, {COUNT}, labels},
                                       {"labels", DPT_I32, 1, {COUNT}, labels}},
                 3, "leave one out");
    dpt_context_destroy(context);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"reads every type", reads_every_type},
        {"reads both orders", reads_both_orders},
        {"reads every version", reads_every_version},
        {"refuses other arrays", refuses_other_arrays},
        {"reads kept files", reads_kept_files},
        {"survives damage", survives_damage},
        {"reads tables", reads_tables},
        {"reads several targets", reads_several_targets},
        {"refuses other tables", refuses_other_tables},
        {"arranges records", arranges_records},
        {"refuses other data", refuses_other_data},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
