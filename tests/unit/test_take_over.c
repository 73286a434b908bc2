/* Tests taking over a file that somebody else has locked. */
#include "harness.h"
#include "io/file.h"
#include "io/output.h"
#include "io/take_over.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_text(test *t, dpti_output *output, const char *text)
{
    dpt_error error = {.status = DPT_OK};
    CHECK_OK(dpti_output_write(output, text, strlen(text), &error));
}

static void check_content(test *t, const char *text)
{
    dpt_error error = {.status = DPT_OK};
    dpti_content content = {.bytes = NULL};
    if (!CHECK_OK(dpti_file_read("taken", &content, &error))) return;
    CHECK(content.n_bytes == strlen(text) && memcmp(content.bytes, text, strlen(text)) == 0);
    free(content.bytes);
}

/* What the one who had it still writes goes to a file without a name. */
static void locked(test *t)
{
    dpt_error error = {.status = DPT_OK};
    dpti_output before, after;
    (void)unlink("taken");
    if (!CHECK_OK(dpti_output_open("", "taken", &before, &error))) return;
    write_text(t, &before, "one\n");
    CHECK_STATUS(dpti_output_open("", "taken", &after, &error), DPT_E_STATE);
    CHECK_OK(dpti_take_over("", "taken", &error));
    if (CHECK_OK(dpti_output_open("", "taken", &after, &error))) {
        CHECK_OK(dpti_output_cut(&after, 4, &error));
        write_text(t, &after, "two\n");
        write_text(t, &before, "three\n");
        CHECK_OK(dpti_output_close(&after, &error));
    }
    CHECK_OK(dpti_output_close(&before, &error));
    check_content(t, "one\ntwo\n");
}

static void free_one(test *t)
{
    dpt_error error = {.status = DPT_OK};
    dpti_output before;
    (void)unlink("taken");
    if (!CHECK_OK(dpti_output_open("", "taken", &before, &error))) return;
    write_text(t, &before, "one\n");
    CHECK_OK(dpti_output_close(&before, &error));
    CHECK_OK(dpti_take_over("", "taken", &error));
    check_content(t, "one\n");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"a file that is locked", locked},
        {"one that is not", free_one},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
