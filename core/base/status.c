/* The version; names and words of the status codes, from the one list in dpt_types.h. */
#include "dptrain.h"

typedef struct status_text {
    dpt_status status;
    const char *name;
    const char *words;
} status_text;

static const status_text texts[] = {
#define STATUS_TEXT(name, value, words) {DPT_##name, "DPT_" #name, words},
    DPT_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
};

static const status_text *find(dpt_status status)
{
    static const status_text unknown = {DPT_E_INTERNAL, "DPT_E_?", "unknown status"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].status == status) return &texts[i];
    return &unknown;
}

const char *dpt_version(void)
{
    return DPT_VERSION;
}

const char *dpt_status_name(dpt_status status)
{
    return find(status)->name;
}

const char *dpt_status_words(dpt_status status)
{
    return find(status)->words;
}
