/* The tested backend and its device lists (mixes.h). */
#include "train/mixes.h"

#include "dptrain.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_BYTES = 256, MAX_LISTS = 32 };

static const mix of_others[] = {
    {"@0", "1"},
    {"cpu,@0", "equal"},
    {"@0,@1", "equal"},
    {"@0,cpu:threads=1,@1", "13:2:1"},
    {"cpu:threads=1,@0,@1", "0:5:2"},
    {"@0,cpu:threads=1,@1", "28:0:1"},
    {"cpu:threads=1,@0", "1:28"},
};

enum { N_OF_OTHERS = sizeof of_others / sizeof *of_others };

/* Names of tested backends, and how many devices each has here. */
typedef struct tested {
    char name[2][32];
    size_t n_devices[2];
    char reason[2][512]; /* why there are none */
} tested;

static void name_backends(tested *out)
{
    const char *names = getenv("DPTRAIN_TEST_BACKEND");
    *out = (tested){.name = {"cpu", ""}};
    if (names && *names) sscanf(names, "%31[^+]+%31s", out->name[0], out->name[1]);
}

bool testing_cpu(void)
{
    tested what;
    name_backends(&what);
    return strcmp(what.name[0], "cpu") == 0;
}

static void count_devices(tested *what)
{
    dpt_context *context = NULL;
    name_backends(what);
    for (int k = 0; k < 2; k++)
        snprintf(what->reason[k], sizeof what->reason[k], "there is no such plug-in");
    if (dpt_context_create(&context) != DPT_OK) return;
    for (size_t i = 0; i < dpt_backend_count(context); i++)
        for (int k = 0; k < 2; k++) {
            const char *why = dpt_backend_reason(context, i);
            if (strcmp(dpt_backend_name(context, i), what->name[k]) != 0) continue;
            what->n_devices[k] = dpt_backend_device_count(context, i);
            snprintf(what->reason[k], sizeof what->reason[k], "%s", why ? why : "none found");
        }
    dpt_context_destroy(context);
}

int tested_backend_missing(void)
{
    tested what;
    count_devices(&what);
    for (int k = 0; k < 2; k++) {
        if (!what.name[k][0] || what.n_devices[k] > 0) continue;
        printf("no device of %s: %s\n", what.name[k], what.reason[k]);
        const char *required = getenv("DPTRAIN_TEST_REQUIRE");
        if (!test_list_has(required ? required : "", what.name[k])) return TEST_SKIP_CODE;
        puts("FAIL: DPTRAIN_TEST_REQUIRE asks for it");
        return 1;
    }
    return 0;
}

/* "@0" or "@1". */
static int write_device(char *out, size_t n_bytes, const tested *what, bool second)
{
    if (second && what->name[1][0]) return snprintf(out, n_bytes, "%s:0", what->name[1]);
    return snprintf(out, n_bytes, "%s:%d", what->name[0], second && what->n_devices[0] > 1);
}

const char *tested_devices(const char *devices)
{
    static char lists[MAX_LISTS][LIST_BYTES];
    static size_t n_lists;
    tested what;
    char *out = lists[n_lists];
    size_t length = 0;
    count_devices(&what);
    if (n_lists == MAX_LISTS) return NULL;
    for (; *devices && length < LIST_BYTES; devices++) {
        if (*devices != '@') {
            out[length++] = *devices;
            continue;
        }
        devices++;
        length += (size_t)write_device(out + length, LIST_BYTES - length, &what, *devices == '1');
    }
    if (length >= LIST_BYTES) return NULL;
    out[length] = '\0';
    n_lists++;
    return out;
}

mix_list tested_mixes(const mix *of_cpu, size_t n)
{
    static mix items[N_OF_OTHERS];
    if (testing_cpu()) return (mix_list){.n = n, .items = of_cpu};
    for (size_t i = 0; i < N_OF_OTHERS; i++)
        items[i] = (mix){tested_devices(of_others[i].devices), of_others[i].split};
    return (mix_list){.n = N_OF_OTHERS, .items = items};
}
