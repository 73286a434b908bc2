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

static const char *tested_backend(void)
{
    const char *name = getenv("DPTRAIN_TEST_BACKEND");
    return name && *name ? name : "cpu";
}

bool testing_cpu(void)
{
    return strcmp(tested_backend(), "cpu") == 0;
}

/* Devices of the tested backend, or 0 with the reason. */
static size_t count_devices(char *reason, size_t n_bytes)
{
    dpt_context *context = NULL;
    size_t n = 0;
    snprintf(reason, n_bytes, "there is no such plug-in");
    if (dpt_context_create(&context) != DPT_OK) return 0;
    for (size_t i = 0; i < dpt_backend_count(context); i++) {
        const char *why = dpt_backend_reason(context, i);
        if (strcmp(dpt_backend_name(context, i), tested_backend()) != 0) continue;
        n = dpt_backend_device_count(context, i);
        snprintf(reason, n_bytes, "%s", why ? why : "none found");
    }
    dpt_context_destroy(context);
    return n;
}

int tested_backend_missing(void)
{
    char reason[512];
    if (count_devices(reason, sizeof reason) > 0) return 0;
    printf("no device of %s: %s\n", tested_backend(), reason);
    const char *required = getenv("DPTRAIN_TEST_REQUIRE");
    if (!test_list_has(required ? required : "", tested_backend())) return TEST_SKIP_CODE;
    puts("FAIL: DPTRAIN_TEST_REQUIRE asks for it");
    return 1;
}

const char *tested_devices(const char *devices)
{
    static char lists[MAX_LISTS][LIST_BYTES];
    static size_t n_lists;
    char reason[512], *out = lists[n_lists];
    const size_t n_devices = count_devices(reason, sizeof reason);
    size_t length = 0;
    if (n_lists == MAX_LISTS) return NULL;
    for (; *devices && length < LIST_BYTES; devices++) {
        const bool second = *devices == '@' && devices[1] == '1' && n_devices > 1;
        if (*devices != '@')
            out[length++] = *devices;
        else
            length += (size_t)snprintf(out + length, LIST_BYTES - length, "%s:%d", tested_backend(),
                                       (int)second);
        devices += *devices == '@';
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
