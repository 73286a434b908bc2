/* Tables and lists of pictures as data sets: what is read and in which order, and what is refused.
 */
#include "data_files.h"

#ifdef DPTRAIN_HAS_PNG
#include "small_pictures.h"

static void write_text(test *t, const char *directory, const char *name, const char *text)
{
    write_file(t, directory, name, (const uint8_t *)text, strlen(text));
}

/* Pictures 0.png to 5.png of these values. */
static void write_squares(test *t, const char *directory)
{
    char name[] = "0.png";
    for (; name[0] <= '5'; name[0]++)
        write_square(t, directory, name, (uint8_t)(name[0] - '0'));
}

typedef struct expected {
    size_t count, classes;
    const uint8_t *values, *labels;
    const char *source;
} expected;

static void check_table(test *t, const char *name, dpt_part part, expected e)
{
    dpt_dataset *data = NULL;
    if (!CHECK_OK(dpt_dataset_open(context_of(t), name, "tables", part, &data))) return;
    CHECK_SIZE(data->count, e.count);
    CHECK_SIZE(data->classes, e.classes);
    CHECK_TEXT(data->source, e.source);
    if (data->count == e.count) check_values(t, data, e.values, e.labels);
    dpt_dataset_destroy(data);
}

/* Labels that are words, in the order of the rows; the test part in a file of its own. */
static void reads_tables(test *t)
{
    static const char name[] = "pictures:2x2:train.csv:file:kind";
    const expected training = {3, 2, (const uint8_t[]){4, 0, 4}, (const uint8_t[]){1, 0, 0},
                               "tables/train.csv"};
    dpt_dataset *data = NULL;
    write_squares(t, "tables/images");
    write_text(t, "tables", "train.csv",
               "id,kind,file\n7,\"two, b\",images/4.png\n8,one,images/0.png\n9,one,images/4.png\n");
    check_table(t, name, DPT_TRAIN, training);
    check_table(t, name, DPT_TEST, training);
    write_text(t, "tables", "val.csv", "file\tkind\r\nimages/5.png\tone\r\n");
    check_table(t, name, DPT_TEST,
                (expected){1, 2, (const uint8_t[]){5}, (const uint8_t[]){0}, "tables/val.csv"});
    REQUIRE_OK(dpt_dataset_open(context_of(t), name, "tables", DPT_TRAIN, &data));
    CHECK_TEXT(data->name, "pictures:2x2");
    CHECK_TEXT(data->class_names[1], "two, b");
    dpt_dataset_destroy(data);
    /* A file without labels, as Kaggle's test.csv, is told and passed over. */
    notices all = {.n = 0};
    dpt_context_notices(context_of(t), note, &all);
    write_text(t, "tables", "test.csv", "name\nimages/1.png\n");
    check_table(t, name, DPT_TEST,
                (expected){1, 2, (const uint8_t[]){5}, (const uint8_t[]){0}, "tables/val.csv"});
    dpt_context_notices(context_of(t), NULL, NULL);
    CHECK_SIZE(all.n, 1);
    CHECK_CONTAINS(all.last, "tables/test.csv has no column kind");
    const dpt_dataset_place place = {name, "tables", DPT_TRAIN};
    char path[128];
    REQUIRE_OK(dpt_dataset_file(context_of(t), &place, 1, path, sizeof path));
    CHECK_TEXT(path, "tables/images/0.png");
}

/* Labels that are numbers, a column of parts, and a path made of another column. */
static void reads_divided_tables(test *t)
{
    static const char name[] = "pictures:2x2x1:all.csv:images/{id}.png:kind";
    dpt_dataset *data = NULL;
    write_squares(t, "tables/images");
    write_text(t, "tables", "all.csv",
               "id,split,kind\n0,train,3\n1,VALID,0\n2,train,10\n3,val,3\n");
    check_table(t, name, DPT_TRAIN,
                (expected){2, 11, (const uint8_t[]){0, 2}, (const uint8_t[]){3, 10},
                           "tables/all.csv (train)"});
    check_table(t, name, DPT_TEST,
                (expected){2, 11, (const uint8_t[]){1, 3}, (const uint8_t[]){0, 3},
                           "tables/all.csv (val)"});
    write_text(t, "tables", "three.csv", "id,split,kind\n0,val,1\n1,test,0\n2,train,1\n3,Test,1\n");
    check_table(t, "pictures:2x2:three.csv:images/{id}.png:kind", DPT_TEST,
                (expected){2, 2, (const uint8_t[]){1, 3}, (const uint8_t[]){0, 1},
                           "tables/three.csv (test)"});
    REQUIRE_OK(dpt_dataset_open(context_of(t), name, "tables", DPT_TRAIN, &data));
    CHECK_TEXT(data->class_names[10], "10");
    dpt_dataset_destroy(data);
    const dpt_dataset_place place = {"pictures:2x2:all.csv:images/{id}.png:kind:labels-from=3",
                                     "tables", DPT_TRAIN};
    char path[128];
    REQUIRE_OK(dpt_dataset_file(context_of(t), &place, 1, path, sizeof path));
    CHECK_TEXT(path, "tables/images/2.png");
    check_fails(t, "pictures:2x2:all.csv:images/{id}.png:kind:labels-from=4", "tables", DPT_TRAIN,
                DPT_E_FORMAT, "sample 0 has label 3");
}

static void reads_lists(test *t)
{
    const expected training = {2, 3, (const uint8_t[]){5, 1}, (const uint8_t[]){2, 0},
                               "tables/train.txt"};
    write_squares(t, "tables/my images");
    write_text(t, "tables", "train.txt", "my images/5.png 2\r\n\nmy images/1.png\t 0 \n");
    write_text(t, "tables", "test.txt", "my images/2.png 1");
    check_table(t, "pictures:2x2:train.txt", DPT_TRAIN, training);
    check_table(t, "pictures:2x2:stream:train.txt", DPT_TRAIN, training);
    check_table(t, "pictures:2x2:skip-unreadable:train.txt", DPT_TRAIN, training);
    check_table(t, "pictures:2x2:train.txt", DPT_TEST,
                (expected){1, 3, (const uint8_t[]){2}, (const uint8_t[]){1}, "tables/test.txt"});
    write_file(t, "tables/my images", "broken.png", (const uint8_t *)"cut", 3);
    write_text(t, "tables", "train.txt",
               "my images/broken.png 1\nmy images/5.png 2\nmy images/1.png 0\n");
    check_fails(t, "pictures:2x2:train.txt", "tables", DPT_TRAIN, DPT_E_FORMAT, "broken.png");
    check_table(t, "pictures:2x2:skip-unreadable:train.txt", DPT_TRAIN, training);
}

static void refuses_tables(test *t)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"", "line 1 names no column kind"},
        {"kind,b\na,b\n", "line 1 names no column file"},
        {"file,kinds\na,b\n", "line 1 names no column kind"},
        {"kind,kind\na,b\n", "two columns are called kind"},
        {"file,kind\n", "names no pictures"},
        {"file,kind\na\n", "line 2 has 1 fields, but the header has 2"},
        {"file,kind\n,b\n", "line 2: '' is no path"},
        {"file,kind\na,\n", "line 2: '' is no label"},
        {"file,kind\na,b\nc,b\n", "has 1 different label, and there must be 2"},
        {"file,kind\na,b\nc,\x80\n", "no printable UTF-8"},
        {"file,kind\n\"a,b\nc,d\n", "a quote is not closed"},
        {"file,kind,split\na,b,train\nc,d,other\n", "line 3: 'other' in the column split"},
        {"file,kind,split\na,b,test\n", "names no pictures of the training part"},
        {"file,kind\nimages/0.png,a\nimages/nowhere.png,b\n", "nowhere.png"},
    };
    write_squares(t, "tables/images");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_text(t, "tables", "wrong.csv", wrong[i].text);
        check_fails(t, "pictures:2x2:wrong.csv:file:kind", "tables", DPT_TRAIN,
                    i + 1 < sizeof wrong / sizeof *wrong ? DPT_E_FORMAT : DPT_E_NOT_FOUND,
                    wrong[i].says);
    }
    write_text(t, "tables", "train-wrong.csv", "file,kind\nimages/0.png,0\nimages/1.png,2\n");
    write_text(t, "tables", "test-wrong.csv", "file,kind\nimages/0.png,3\n");
    check_fails(t, "pictures:2x2:train-wrong.csv:file:kind", "tables", DPT_TEST, DPT_E_FORMAT,
                "tables/test-wrong.csv: line 2: the label '3' is none of the training part");
    write_text(t, "tables", "wrong.txt", "images/0.png\n");
    check_fails(t, "pictures:2x2:wrong.txt", "tables", DPT_TRAIN, DPT_E_FORMAT,
                "line 1 is no path");
    check_fails(t, "pictures:2x2:wrong.csv:file", "tables", DPT_TRAIN, DPT_E_INVALID,
                "names no table of pictures");
    check_fails(t, "pictures:2x2:none.csv:a:b", "tables", DPT_TRAIN, DPT_E_NOT_FOUND, "none.csv");
}
#else
static void nothing(test *t)
{
    SKIP("built without libpng");
}
#endif

int main(int argc, char **argv)
{
    static const test_case cases[] = {
#ifdef DPTRAIN_HAS_PNG
        {"reads_tables", reads_tables},
        {"reads_divided_tables", reads_divided_tables},
        {"reads_lists", reads_lists},
        {"refuses_tables", refuses_tables},
#else
        {"nothing", nothing},
#endif
    };
    return run_in_new_folder(argc, argv, cases, sizeof cases / sizeof *cases);
}
