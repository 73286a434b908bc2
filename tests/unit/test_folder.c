/* Tests the folder of checkpoints, which may come from an untrusted source: which names count,
   what is removed, and that nothing outside the folder is written. */
#include "checkpoint/snapshot.h"
#include "harness.h"
#include "io/file.h"
#include "io/folder.h"
#include "io/safetensors.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void touch(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (!file) return;
    fputs(text, file);
    fclose(file);
}

static bool has_text(const char *path, const char *text)
{
    char found[64] = "";
    FILE *file = fopen(path, "r");
    if (file && !fgets(found, sizeof found, file)) found[0] = '\0';
    if (file) fclose(file);
    return strcmp(found, text) == 0;
}

static void names(test *t)
{
    static const char *const others[] = {
        "checkpoint-00000001.safetensors",   /* eight digits */
        "checkpoint-0000000001.safetensors", /* another spelling of 1 */
        "checkpoint--00000001.safetensors",
        "checkpoint-.safetensors",
        "checkpoint-000000001.safetensors.old",
        "Checkpoint-000000001.safetensors",
        "checkpoint-99999999999999999999.safetensors", /* no size_t */
        "checkpoint-999999999999999999999999999.safetensors",
        "model.safetensors"};
    char path[160];
    size_t *numbers = NULL, n = 9;
    dpt_error error = {.status = DPT_OK};
    (void)mkdir("names", 0777);
    REQUIRE_OK(dpti_folder_list("names", &numbers, &n, &error));
    CHECK_SIZE(n, 0);
    free(numbers);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(path, sizeof path, "names/%s", others[i]);
        touch(path, "");
    }
    /* More than the first memory that is taken holds. */
    for (size_t i = 0; i < 40; i++) {
        char *name = dpti_folder_path("names", i * 100000000);
        REQUIRE(name);
        touch(name, "");
        free(name);
    }
    REQUIRE_OK(dpti_folder_list("names", &numbers, &n, &error));
    CHECK_SIZE(n, 40);
    for (size_t i = 0; i < n; i++)
        CHECK_SIZE(numbers[i], (39 - i) * 100000000);
    free(numbers);
    CHECK_STATUS(dpti_folder_list("names/none", &numbers, &n, &error), DPT_E_IO);
    CHECK_CONTAINS(error.message, "names/none");
}

static void leftovers(test *t)
{
    static const struct {
        const char *name;
        bool goes;
    } entries[] = {{".dptrain-2147483647-0.tmp", true}, /* no process has this number */
                   {".dptrain-1-0.tmp", false},         /* this one is there */
                   {".dptrain-0-0.tmp", false},
                   {".dptrain-99999999999-0.tmp", false},
                   {".dptrain-999999999999999999999999999-0.tmp", false},
                   {".dptrain-2147483647.tmp", false},
                   {".dptrain-x-0.tmp", false},
                   {".dptrain-.tmp", false},
                   {"dptrain-2147483647-0.tmp", false},
                   {".dptrain-2147483647-0.tmp.old", false}};
    char path[160];
    size_t n = 0;
    (void)mkdir("leftovers", 0777);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        snprintf(path, sizeof path, "leftovers/%s", entries[i].name);
        touch(path, "");
        n += entries[i].goes;
    }
    snprintf(path, sizeof path, "leftovers/.dptrain-%ld-7.tmp", (long)getpid());
    touch(path, ""); /* of this process, from before */
    CHECK_SIZE(dpti_folder_clean("leftovers"), n + 1);
    CHECK(access(path, F_OK) != 0);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        snprintf(path, sizeof path, "leftovers/%s", entries[i].name);
        CHECK((access(path, F_OK) != 0) == entries[i].goes);
    }
    CHECK_SIZE(dpti_folder_clean("leftovers/none"), 0);
}

/* Files of an ended training: under other names, whatever stands there, until they are deleted. */
static void set_aside(test *t)
{
    static const char first[] = "aside/old-checkpoint-000000004.safetensors",
                      second[] = "aside/old-checkpoint-000000008.safetensors",
                      other[] = "aside/old-checkpoint-8.safetensors",
                      best[] = "aside/best.safetensors", old_best[] = "aside/old-best.safetensors";
    size_t *numbers = NULL, n = 9;
    dpt_error error = {.status = DPT_OK};
    (void)mkdir("aside", 0777);
    touch("aside/kept", "kept");
    touch("aside/checkpoint-000000004.safetensors", "four");
    touch("aside/checkpoint-000000008.safetensors", "eight");
    touch("aside/model.safetensors", "model");
    touch(best, "best");
    touch(other, "other");
    CHECK(symlink("kept", first) == 0);
    REQUIRE_OK(dpti_folder_set_aside("aside", &error));
    REQUIRE_OK(dpti_folder_list("aside", &numbers, &n, &error));
    CHECK_SIZE(n, 0);
    free(numbers);
    CHECK(has_text(first, "four") && has_text(second, "eight") && has_text("aside/kept", "kept"));
    CHECK(has_text(old_best, "best") && access(best, F_OK) != 0);
    CHECK_SIZE(dpti_folder_count_aside("aside"), 2);

    /* Back again, but for what has been written meanwhile. */
    touch(best, "new");
    dpti_folder_put_back("aside");
    CHECK(has_text("aside/checkpoint-000000004.safetensors", "four") &&
          has_text("aside/checkpoint-000000008.safetensors", "eight"));
    CHECK(has_text(best, "new") && has_text(old_best, "best") && has_text(other, "other"));
    CHECK_SIZE(dpti_folder_count_aside("aside"), 0);
    REQUIRE_OK(dpti_folder_set_aside("aside", &error));
    CHECK(has_text(old_best, "new") && has_text(first, "four") && has_text(second, "eight"));

    dpti_folder_delete_aside("aside");
    CHECK(access(first, F_OK) != 0 && access(second, F_OK) != 0 && access(old_best, F_OK) != 0);
    CHECK(has_text(other, "other") && has_text("aside/model.safetensors", "model"));
    REQUIRE_OK(dpti_folder_set_aside("aside", &error)); /* there are none */
    dpti_folder_delete_aside("aside");

    /* A folder cannot be replaced: what is behind it in the order stays as well. */
    touch("aside/checkpoint-000000004.safetensors", "four");
    touch("aside/checkpoint-000000008.safetensors", "eight");
    CHECK(mkdir(first, 0777) == 0);
    CHECK_STATUS(dpti_folder_set_aside("aside", &error), DPT_E_IO);
    CHECK_CONTAINS(error.message, "checkpoint-000000004");
    CHECK(has_text("aside/checkpoint-000000008.safetensors", "eight"));
    CHECK_STATUS(dpti_folder_set_aside("aside/none", &error), DPT_E_IO);
    dpti_folder_delete_aside("aside/none");
    dpti_folder_put_back("aside/none");
    CHECK_SIZE(dpti_folder_count_aside("aside/none"), 0);
}

static void one_at_a_time(test *t)
{
    int lock = -1, again = -1;
    dpt_error error = {.status = DPT_OK};
    (void)mkdir("locked", 0777);
    REQUIRE_OK(dpti_folder_lock("locked", &lock, &error));
    CHECK_STATUS(dpti_folder_lock("locked", &again, &error), DPT_E_STATE);
    CHECK_CONTAINS(error.message, "locked");
    close(lock);
    CHECK_OK(dpti_folder_lock("locked", &lock, &error));
    close(lock);
    CHECK_STATUS(dpti_folder_lock("locked/none", &lock, &error), DPT_E_IO);
}

/* Replaces a file as checkpoints are. */
static dpt_status replace(const char *path, dpt_error *error)
{
    dpti_new_file file;
    dpti_folder_claim(path);
    DPT_TRY(dpti_new_file_create(path, &file, error));
    DPT_TRY(dpti_new_file_write(&file, "new", 3, error));
    return dpti_new_file_commit(&file, error);
}

static void nothing_outside(test *t)
{
    dpt_error error = {.status = DPT_OK};
    struct stat info;
    (void)mkdir("hostile", 0777);
    touch("precious", "precious");
    CHECK(symlink("../precious", "hostile/link") == 0);
    CHECK(symlink("nowhere", "hostile/dangling") == 0);
    CHECK(symlink("loop", "hostile/loop") == 0);
    CHECK(mkfifo("hostile/pipe", 0666) == 0);
    CHECK(mkdir("hostile/folder", 0777) == 0);
    touch("hostile/file", "old");
    static const char *const names_[] = {"hostile/link", "hostile/dangling", "hostile/loop",
                                         "hostile/pipe", "hostile/file",     "hostile/none"};
    for (size_t i = 0; i < sizeof names_ / sizeof *names_; i++) {
        CHECK_OK(replace(names_[i], &error));
        CHECK(lstat(names_[i], &info) == 0 && S_ISREG(info.st_mode) && has_text(names_[i], "new"));
    }
    CHECK_STATUS(replace("hostile/folder", &error), DPT_E_IO);
    CHECK(has_text("precious", "precious"));
    CHECK(access("hostile/nowhere", F_OK) != 0);
}

/* A file of holes costs nobody anything, and reading it all memory that there is. */
static void no_more_than_there_is(test *t)
{
    dpti_content content = {0};
    dpt_error error = {.status = DPT_OK};
    dpti_safetensors *file = NULL;
    touch("holes", "");
    if (truncate("holes", (off_t)1 << 43) != 0) SKIP("no file of 8 TiB here");
    CHECK_STATUS(dpti_file_read("holes", &content, &error), DPT_E_NO_MEMORY);
    CHECK_CONTAINS(error.message, "holes");
    CHECK_STATUS(dpti_safetensors_read_most("holes", 1 << 20, &file, &error), DPT_E_FORMAT);
    CHECK(!dpti_checkpoint_ended("holes", 1 << 20, NULL));
    REQUIRE_OK(dpti_file_read_first("holes", 10, &content, &error));
    CHECK_SIZE(content.n_bytes, 10);
    free(content.bytes);
    CHECK_STATUS(dpti_file_read_first("names", 10, &content, &error), DPT_E_IO);
    CHECK_STATUS(dpti_file_read_first("no such file", 10, &content, &error), DPT_E_NOT_FOUND);
    unlink("holes");
}

static int remove_all(void)
{
    return system("rm -rf names leftovers aside locked hostile precious holes");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {{"names", names},
                                      {"leftovers", leftovers},
                                      {"set aside", set_aside},
                                      {"one at a time", one_at_a_time},
                                      {"nothing outside is written", nothing_outside},
                                      {"no more memory than there is", no_more_than_there_is}};
    if (remove_all() != 0) return 1;
    (void)alarm(60); /* a pipe that is opened by mistake hangs */
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
