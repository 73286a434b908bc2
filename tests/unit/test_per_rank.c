/* Device lists for several processes: which list a process takes, and what is said about texts that
   mean nothing.  Needs neither devices nor MPI. */
#include "device/per_rank.h"
#include "dptrain.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

static dpti_process_name process(size_t rank, const char *host)
{
    dpti_process_name name = {.rank = rank, .rank_known = true};
    snprintf(name.host, sizeof name.host, "%s", host);
    return name;
}

static void check_list(test *t, const char *text, const dpti_process_name *name,
                       const char *expected)
{
    char *list = NULL;
    dpt_error error = {.status = DPT_OK};
    if (!CHECK_OK(dpti_per_rank_list(text, name, &list, &error)))
        FAIL("\"%s\": %s", text, error.message);
    CHECK_TEXT(list ? list : "none", expected);
    free(list);
}

/* ---- Texts that mean something --------------------------------------------------------------- */

static void a_plain_list_is_for_all(test *t)
{
    static const char *const lists[] = {"cpu", "cuda:0,cpu:threads=2", "all", "", "not a list"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const dpti_process_name first = process(0, "left"), unknown = {.rank_known = false};
        CHECK(!dpti_is_per_rank(lists[i]));
        check_list(t, lists[i], &first, lists[i]);
        check_list(t, lists[i], &unknown, lists[i]);
    }
}

static void takes_the_closest(test *t)
{
    static const struct {
        const char *text, *host, *list[3]; /* of ranks 0, 1 and 2 */
    } cases[] = {
        {"@0=cpu;@1=cuda:0,cpu;@2=a:1:x=2", "h", {"cpu", "cuda:0,cpu", "a:1:x=2"}},
        {"@*=cpu", "h", {"cpu", "cpu", "cpu"}},
        {"@*=a;@h=b;@1=c", "h", {"b", "c", "b"}},
        {"@1=c;@h=b;@*=a", "h", {"b", "c", "b"}},
        {"@1=c;@other=b;@*=a", "h", {"a", "c", "a"}},
        {" ; @1=c ;;  @*=a; ", "h", {"a", "c", "a"}},
        {"@01=c;@*=a", "h", {"a", "c", "a"}},
        {"@65535=c;@*=a", "h", {"a", "a", "a"}},
        {"@*=a:x==;@2=b:y=@", "h", {"a:x==", "a:x==", "b:y=@"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(dpti_is_per_rank(cases[i].text));
        for (size_t rank = 0; rank < 3; rank++) {
            const dpti_process_name name = process(rank, cases[i].host);
            check_list(t, cases[i].text, &name, cases[i].list[rank]);
        }
    }
}

static void compares_names_of_hosts(test *t)
{
    static const struct {
        const char *host, *list; /* of "@left=a;@right.example.org=b;@n-1=c;@*=d" */
    } cases[] = {
        {"left", "a"},
        {"LEFT", "a"},
        {"left.example.org", "a"},
        {"right.example.org", "b"},
        {"right", "b"},
        {"Right", "b"},
        {"right.example.com", "d"},
        {"right.example", "d"},
        {"n-1", "c"},
        {"n-1.local", "c"},
        {"n-10", "d"},
        {"lef", "d"},
        {"", "d"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const dpti_process_name name = process(i, cases[i].host);
        check_list(t, "@left=a;@right.example.org=b;@n-1=c;@*=d", &name, cases[i].list);
    }
}

/* ---- Texts that mean nothing ----------------------------------------------------------------- */

static void complains(test *t)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"@1=cpu", "no entry for process 0 on host \"left\": add @0=LIST, @HOST=LIST, or @*=LIST"},
        {"@right=cpu", "no entry for process 0"},
        {";", "no entry for process 0"},
        {"@", "\"@\" does not say which process it is for: write @RANK=LIST"},
        {"@0", "does not say which process"},
        {"@0cpu;@*=cpu", "\"@0cpu\" does not say which process"},
        {"cpu;@1=cpu", "\"cpu\" does not say which process"},
        {"cpu;cpu", "\"cpu\" does not say which process"},
        {"@*=cpu;0=cpu", "\"0=cpu\" does not say which process"},
        {"@=cpu", "\"\" is neither the number of a process, nor the name of a host, nor *"},
        {"@a b=cpu", "\"a b\" is neither"},
        {"@-1=cpu", "\"-1\" is neither"},
        {"@.a=cpu", "\".a\" is neither"},
        {"@**=cpu", "\"**\" is neither"},
        {"@a:1=cpu", "\"a:1\" is neither"},
        {"@65536=cpu;@*=cpu", "@65536=...\": a process has a number from 0 to 65535"},
        {"@99999999999999999999999=cpu", "a number from 0"},
        {"@0=cpu;@0=cpu", "two entries for one process, @0 and @0: leave one"},
        {"@1=cpu;@*=cpu;@01=cpu", "two entries for one process, @1 and @01"},
        {"@*=cpu;@0=cpu;@*=cpu", "@* and @*"},
        {"@left=cpu;@LEFT=cpu;@*=cpu", "@left and @LEFT"},
        {"@a=cpu;@a.org=cpu;@*=cpu", "@a and @a.org"},
        {"@left.org=cpu;@left.com=cpu", "two entries for host \"left\", @left.org and @left.com"},
        /* Lists of other processes are read too. */
        {"@0=cpu;@1=", "@1: the device list is empty"},
        {"@0=cpu;@1=cpu,,cpu", "@1: the device list has an entry without a name"},
        {"@0=cpu;@*=cpu, cpu", "@*: the device list has a space"},
        {"@0=cpu;@1=cpu:threads", NULL},
        {"@0=cpu;@1=cpu:Threads=1", "@1: device \"cpu:Threads=1\""},
        {"@0=cpu;\n@1=cpu", "not printable ASCII at position 8"},
        {"@0=cpu;\t@1=cpu", "not printable ASCII at position 8"},
        {"@h\xc3\xb6st=cpu", "not printable ASCII at position 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const dpti_process_name name = process(0, "left");
        char *list = NULL;
        dpt_error error = {.status = DPT_OK};
        const dpt_status status = dpti_per_rank_list(cases[i].text, &name, &list, &error);
        if (!cases[i].part) { /* a group that only a backend knows */
            CHECK_OK(status);
            free(list);
            continue;
        }
        if (!CHECK_STATUS(status, DPT_E_INVALID) || !CHECK_CONTAINS(error.message, cases[i].part))
            FAIL("list \"%s\"", cases[i].text);
        CHECK(!list);
    }
}

static void needs_a_rank(test *t)
{
    const dpti_process_name unknown = {.host = "left"};
    char *list = NULL;
    dpt_error error = {.status = DPT_OK};
    CHECK_STATUS(dpti_per_rank_list("@*=cpu", &unknown, &list, &error), DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "the launcher does not say which one this is");
}

static void limits_lengths(test *t)
{
    enum { ENTRY_BYTES = 12, N = DPTI_MAX_PER_RANK_ENTRIES + 1 };
    const dpti_process_name name = process(7, "left");
    dpt_error error = {.status = DPT_OK};
    char *list = NULL, *text = calloc(DPTI_MAX_PER_RANK_BYTES + 2, 1);
    REQUIRE(text);
    for (size_t i = 0; i < N; i++)
        snprintf(text + i * ENTRY_BYTES, ENTRY_BYTES + 1, "@%05zu=host;", i);
    CHECK_STATUS(dpti_per_rank_list(text, &name, &list, &error), DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "more than 4096 entries");
    text[(N - 1) * ENTRY_BYTES] = '\0';
    check_list(t, text, &name, "host");
    memset(text, ';', DPTI_MAX_PER_RANK_BYTES + 1);
    CHECK_STATUS(dpti_per_rank_list(text, &name, &list, &error), DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "longer than 1048576");
    free(text);
}

/* ---- Through the library --------------------------------------------------------------------- */

static void a_context_takes_the_launcher_s_rank(test *t)
{
    dpt_context *context = NULL;
    dpt_device_set *set = NULL;
    (void)setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    (void)setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    REQUIRE_OK(dpt_context_create(&context));
    /* What is said shows which list was opened. */
    CHECK_STATUS(dpt_device_set_open(context, "@0=zero:0;@1=one:0", &set), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(context), "one");
    dpt_context_destroy(context);
    (void)unsetenv("OMPI_COMM_WORLD_RANK");
    REQUIRE_OK(dpt_context_create(&context));
    CHECK_STATUS(dpt_device_set_open(context, "@0=zero:0;@1=one:0", &set), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(context), "does not say which one this is");
    dpt_context_destroy(context);
    (void)unsetenv("OMPI_COMM_WORLD_SIZE");
    REQUIRE_OK(dpt_context_create(&context));
    CHECK_STATUS(dpt_device_set_open(context, "@0=zero:0;@1=one:0", &set), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(context), "zero");
    CHECK_STATUS(dpt_device_set_open(context, "@1=one:0", &set), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(context), "no entry for process 0");
    dpt_context_destroy(context);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"a plain list is for all", a_plain_list_is_for_all},
        {"takes the closest", takes_the_closest},
        {"compares names of hosts", compares_names_of_hosts},
        {"complains", complains},
        {"needs a rank", needs_a_rank},
        {"limits lengths", limits_lengths},
        {"a context takes the launcher's rank", a_context_takes_the_launcher_s_rank},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
