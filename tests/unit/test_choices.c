/* Tests autotuned choices (backends/common): the fastest algorithm is remembered in the process
   and in the cache; if several processes write, the first one decides. */
#include "common/choices.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Seconds of "a", "b" and "c"; negative: not a candidate here. */
typedef struct timer {
    double seconds[3];
    size_t n_timed;
    dpt_status failure;
    dpt_status refusal; /* of one that is no candidate; 0: DPT_E_UNSUPPORTED */
    /* What another process chooses meanwhile: a line for the file, or NULL. */
    const char *meanwhile, *file;
} timer;

static dpt_status time_candidate(void *argument, const char *candidate, double *seconds)
{
    timer *it = argument;
    it->n_timed++;
    *seconds = it->seconds[candidate[0] - 'a'];
    if (it->meanwhile) (void)dpt_cache_write(it->file, it->meanwhile, strlen(it->meanwhile));
    if (it->failure != DPT_OK) return it->failure;
    return *seconds >= 0.0 ? DPT_OK : it->refusal != DPT_OK ? it->refusal : DPT_E_UNSUPPORTED;
}

static const char *const candidates[] = {"a", "b", "c"};

static dpt_choice choice_of(timer *it, const char *key)
{
    return (dpt_choice){.key = key,
                        .candidates = candidates,
                        .n_candidates = 3,
                        .time = time_candidate,
                        .argument = it};
}

static void fastest(test *t)
{
    timer it = {.seconds = {3.0, 1.0, 2.0}};
    const dpt_choice choice = choice_of(&it, "shape 1");
    dpt_choices *of = dpt_choices_get("test/fastest.txt");
    size_t best = 9;
    REQUIRE(of);
    CHECK(of == dpt_choices_get("test/fastest.txt"));
    REQUIRE_OK(dpt_choices_find(of, &choice, NULL, &best));
    CHECK(best == 1 && it.n_timed == 3);
    it.seconds[2] = 0.5;
    REQUIRE_OK(dpt_choices_find(of, &choice, NULL, &best));
    CHECK(best == 1 && it.n_timed == 3); /* remembered */
    const dpt_choice other = choice_of(&it, "shape 2");
    REQUIRE_OK(dpt_choices_find(of, &other, NULL, &best));
    CHECK(best == 2 && it.n_timed == 6);
    dpt_choice single = choice_of(&it, "shape 3");
    single.n_candidates = 1;
    REQUIRE_OK(dpt_choices_find(of, &single, NULL, &best));
    CHECK(best == 0 && it.n_timed == 6);
    size_t n_bytes = 0;
    char *lines = (char *)dpt_cache_read("test/fastest.txt", &n_bytes);
    REQUIRE(lines);
    CHECK(strstr(lines, "shape 1 of ") &&
          strstr(lines, "\tb\tb 1e+03 ms, c 2e+03 ms, a 3e+03 ms\n"));
    CHECK(strstr(lines, "shape 2 of ") && strstr(lines, "\tc\tc 500 ms, b 1e+03 ms, a 3e+03 ms\n"));
    free(lines);
}

/* What another process has written while this one measured is taken, and kept. */
static void first_writer(test *t)
{
    timer it = {.seconds = {3.0, 1.0, 2.0}};
    const dpt_choice choice = choice_of(&it, "shape");
    dpt_choices *mine = dpt_choices_get("test/mine.txt"),
                *theirs = dpt_choices_get("test/theirs.txt");
    size_t best = 9, n_bytes = 0;
    REQUIRE(mine && theirs);
    REQUIRE_OK(dpt_choices_find(theirs, &choice, NULL, &best));
    char *line = (char *)dpt_cache_read("test/theirs.txt", &n_bytes);
    char *name = line ? strchr(line, '\t') : NULL;
    REQUIRE(name && name[1] == 'b' && best == 1);
    name[1] = 'c';
    it.meanwhile = line;
    it.file = "test/mine.txt";
    REQUIRE_OK(dpt_choices_find(mine, &choice, NULL, &best));
    CHECK(best == 2);
    it.n_timed = 0;
    REQUIRE_OK(dpt_choices_find(mine, &choice, NULL, &best));
    CHECK(best == 2 && it.n_timed == 0);
    free(line);
}

/* A machine whose speed changes from one moment to the next. */
typedef struct moments {
    const double (*seconds)[3]; /* of "a", "b" and "c", by round */
    size_t n_each[3];
    char order[64];
} moments;

static dpt_status time_moment(void *argument, const char *candidate, double *seconds)
{
    moments *it = argument;
    const size_t i = (size_t)(candidate[0] - 'a');
    const size_t n = strlen(it->order);
    if (n + 1 >= sizeof it->order) return DPT_E_INTERNAL;
    it->order[n] = candidate[0];
    *seconds = it->seconds[it->n_each[i]++][i];
    return *seconds < 0.0 ? DPT_E_UNSUPPORTED : DPT_OK;
}

static dpt_choice alternating(moments *it, const char *key, size_t n_rounds)
{
    return (dpt_choice){.key = key,
                        .candidates = candidates,
                        .n_candidates = 3,
                        .n_rounds = n_rounds,
                        .time = time_moment,
                        .argument = it};
}

/* The best of several rounds counts, so that a load which comes and goes decides nothing. */
static void rounds(test *t)
{
    static const double loaded[][3] = {{38.8, 2.0, 2.1}, {1.0, 2.0, 9.0}, {1.1, 30.0, 2.2}};
    moments it = {.seconds = loaded};
    dpt_choice choice = alternating(&it, "loaded", 3);
    char measured[DPT_MEASURED_BYTES];
    choice.measured = measured;
    dpt_choices *of = dpt_choices_get("test/rounds.txt");
    size_t best = 9;
    REQUIRE(of);
    REQUIRE_OK(dpt_choices_find(of, &choice, NULL, &best));
    CHECK(best == 0);
    CHECK(strcmp(it.order, "abcabcabc") == 0); /* in turn: never one after itself */
    CHECK(strcmp(measured, "a 1e+03 ms, b 2e+03 ms, c 2.1e+03 ms") == 0);
}

/* One slow round is no reason to leave a candidate out; two are.  What is none is not tried again.
 */
static void hopeless(test *t)
{
    static const double slow[][3] = {{9.0, 3.0, 1.0}, {9.0, 1.2, 1.0}, {0.1, 0.9, 1.0}};
    static const double none[][3] = {{3.0, -1.0, 2.0}, {1.0, 0.1, 2.0}};
    moments it = {.seconds = slow}, other = {.seconds = none};
    const dpt_choice choice = alternating(&it, "slow", 3),
                     with_none = alternating(&other, "none", 2);
    dpt_choices *of = dpt_choices_get("test/hopeless.txt");
    size_t best = 9;
    REQUIRE(of);
    REQUIRE_OK(dpt_choices_find(of, &choice, NULL, &best));
    CHECK(best == 1 && strcmp(it.order, "abcabcbc") == 0);
    REQUIRE_OK(dpt_choices_find(of, &with_none, NULL, &best));
    CHECK(best == 0 && strcmp(other.order, "abcac") == 0);
}

static void failures(test *t)
{
    timer it = {.seconds = {-1.0, -1.0, 2.0}};
    const dpt_choice choice = choice_of(&it, "shape"), again = choice_of(&it, "shape again");
    dpt_choices *of = dpt_choices_get("test/failures.txt");
    size_t best = 9;
    REQUIRE(of);
    REQUIRE_OK(dpt_choices_find(of, &choice, NULL, &best));
    CHECK(best == 2);
    it.failure = DPT_E_DEVICE;
    CHECK_STATUS(dpt_choices_find(of, &again, NULL, &best), DPT_E_DEVICE);
    it.failure = DPT_E_UNSUPPORTED;
    CHECK_STATUS(dpt_choices_find(of, &again, NULL, &best), DPT_E_UNSUPPORTED);
    it.failure = DPT_OK; /* a failure is not remembered */
    REQUIRE_OK(dpt_choices_find(of, &again, NULL, &best));
    CHECK(best == 2);
    /* What fails alone is passed over. */
    const dpt_choice third = choice_of(&it, "a third shape"), lost = choice_of(&it, "lost");
    it.refusal = DPT_E_DEVICE;
    REQUIRE_OK(dpt_choices_find(of, &third, NULL, &best));
    CHECK(best == 2);
    it.refusal = DPT_E_DEVICE_LOST;
    CHECK_STATUS(dpt_choices_find(of, &lost, NULL, &best), DPT_E_DEVICE_LOST);
}

static void write_sound(test *t, const char *name)
{
    CHECK(dpt_cache_write(name, "text", 4));
}

static bool is_read(const char *name)
{
    size_t n = 0;
    unsigned char *bytes = dpt_cache_read(name, &n);
    const bool read = bytes && n == 4 && memcmp(bytes, "text", 5) == 0;
    free(bytes);
    return read;
}

/* Folders and files are the user's alone, and others' are not read. */
static void private_files(test *t)
{
    static const char name[] = "private/file";
    struct stat info;
    char *path = dpt_cache_path(name), *other = dpt_cache_path("private/other");
    REQUIRE(path && other);
    (void)umask(0);
    write_sound(t, name);
    REQUIRE(stat(path, &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
    *strrchr(path, '/') = '\0';
    CHECK(stat(path, &info) == 0 && (info.st_mode & 0777) == 0700);
    path[strlen(path)] = '/';
    (void)umask(022);
    CHECK(is_read(name));
    static const mode_t open_modes[] = {0620, 0602, 0666};
    for (size_t i = 0; i < sizeof open_modes / sizeof *open_modes; i++) {
        CHECK(chmod(path, open_modes[i]) == 0 && !is_read(name));
        write_sound(t, name); /* in its place */
        CHECK(is_read(name));
    }
    CHECK(symlink(path, other) == 0 && !is_read("private/other"));
    CHECK(unlink(other) == 0 && mkfifo(other, 0600) == 0 && !is_read("private/other"));
    if (geteuid() == 0) CHECK(chown(path, 65534, 65534) == 0 && !is_read(name));
    free(other);
    free(path);
}

/* Whatever stands in a file that is not what was written. */
static void damage(test *t)
{
    static const char name[] = "damage/file";
    char whole[44], *path = dpt_cache_path(name);
    write_sound(t, name);
    FILE *file = path ? fopen(path, "r+b") : NULL;
    REQUIRE(file && fread(whole, 1, sizeof whole, file) == sizeof whole && fgetc(file) == EOF);
    fclose(file);
    for (size_t i = 0; i < sizeof whole; i++) {
        whole[i] ^= 1;
        file = fopen(path, "r+b");
        REQUIRE(file && fwrite(whole, 1, sizeof whole, file) == sizeof whole);
        fclose(file);
        CHECK(!is_read(name));
        whole[i] ^= 1;
    }
    for (off_t n = 0; n < (off_t)sizeof whole; n++) {
        write_sound(t, name);
        CHECK(truncate(path, n) == 0 && !is_read(name));
    }
    write_sound(t, name);
    CHECK(is_read(name) && truncate(path, (off_t)1 << 42) == 0 && !is_read(name));
    CHECK(unlink(path) == 0 && !is_read(name));
    free(path);
}

/* Where the cache is, and where there is none. */
static void places(test *t)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *before = cache ? strdup(cache) : NULL, *home_before = home ? strdup(home) : NULL;
    REQUIRE(before);
    CHECK(dpt_cache_writable("places/") && !dpt_cache_writable("test/fastest.txt/"));
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", "/home/of/somebody", 1);
    char *path = dpt_cache_path("file");
    CHECK_TEXT(path, "/home/of/somebody/.cache/dptrain/file");
    free(path);
    setenv("HOME", "relative", 1);
    CHECK(!dpt_cache_path("file") && !dpt_cache_write("file", "text", 4));
    CHECK(!dpt_cache_writable("places/") && dpt_cache_lock("file") < 0);
    setenv("XDG_CACHE_HOME", "/dev/null", 1);
    CHECK(!dpt_cache_write("file", "text", 4) && !dpt_cache_writable("places/"));
    setenv("XDG_CACHE_HOME", before, 1);
    if (home_before) setenv("HOME", home_before, 1);
    free(before);
    free(home_before);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {{"fastest", fastest},   {"first writer", first_writer},
                                      {"rounds", rounds},     {"hopeless", hopeless},
                                      {"failures", failures}, {"private files", private_files},
                                      {"damage", damage},     {"places", places}};
    char folder[TEST_FOLDER_BYTES];
    if (!test_enter_folder(folder) || setenv("XDG_CACHE_HOME", folder, 1) != 0) return 1;
    const int code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
    test_remove_folder(folder);
    return code;
}
