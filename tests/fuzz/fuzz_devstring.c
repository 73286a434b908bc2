/* Feeds arbitrary bytes to the parsers of device lists, of one process and of several, and to the
   selection of devices on a described machine, and checks the invariants of every accepted list. */
#include "device/per_rank.h"
#include "device/select.h"
#include "fuzz.h"

static const char *const switches[] = {"off", "on", NULL};
static const dpt_param_spec params[] = {
    {.key = "threads", .help = "", .type = DPT_PARAM_NUMBER, .min = 1, .max = 64},
    {.key = "graphs", .help = "", .type = DPT_PARAM_CHOICE, .choices = switches},
    {.key = "precision",
     .help = "",
     .type = DPT_PARAM_PRECISION,
     .precisions = 1u << DPT_PRECISION_BF16},
    {.key = "any", .help = ""},
    {.key = NULL},
};
static const dpt_memory_ops memory = {.host_pointer = NULL};
static const dpt_backend backend = {.memory = &memory, .params = params};

static void check_param(const dpt_param *param)
{
    require(param->text[0]);
    if (strcmp(param->key, "threads") == 0)
        require(param->number >= 1 && param->number <= 64);
    else if (strcmp(param->key, "graphs") == 0)
        require(param->number < 2 && strcmp(param->text, switches[param->number]) == 0);
    else
        require(strcmp(param->key, "any") == 0 && param->number == 0);
}

static void check_selection(const dpti_selection *selection)
{
    require(selection->n_devices >= 1 && selection->n_devices <= DPTI_MAX_ENTRIES);
    for (size_t i = 0; i < selection->n_devices; i++) {
        const dpti_selected *device = &selection->devices[i];
        require(device->index < device->backend->n_devices && !device->backend->reason);
        require(device->id[0] && memchr(device->id, '\0', sizeof device->id));
        const char *group = device->entry->group;
        const dpti_registry_device *found = &device->backend->devices[device->index];
        require(!group || strcmp(found->info.group, group) == 0);
        require(device->entry->throttle >= 1.0 && device->entry->memory_limit_bytes > 0);
        require(device->precision == (device->has_precision ? DPT_PRECISION_BF16 : 0));
        require(device->n_params + device->has_precision == device->entry->n_params);
        for (size_t k = 0; k < device->n_params; k++)
            check_param(&device->params[k]);
    }
}

static void check_list(const dpti_device_list *list, dpt_error *error)
{
    dpti_registry_device cards[3] = {{.id = "card:0", .info.group = "fast"},
                                     {.id = "card:1", .info.group = "slow"},
                                     {.id = "card:2", .info.group = "fast"}};
    dpti_registry_device host = {.id = "host"};
    dpti_registry_backend backends[] = {
        {.name = (char *)"card", .backend = &backend, .n_devices = 3, .devices = cards},
        {.name = (char *)"gone", .reason = (char *)"it is gone"},
        {.name = (char *)"host", .backend = &backend, .n_devices = 1, .devices = &host},
    };
    const dpti_registry registry = {.n_backends = 3, .backends = backends};
    dpti_selection selection;
    require(list->n_entries >= 1 && list->n_entries <= DPTI_MAX_ENTRIES);
    if (dpti_select(&registry, list, &selection, error) != DPT_OK) return;
    check_selection(&selection);
    dpti_selection_free(&selection);
}

static void check_message(const dpt_error *error)
{
    if (error->status == DPT_OK) return;
    require(error->message[0] && memchr(error->message, '\0', sizeof error->message));
    for (const char *c = error->message; *c; c++)
        require(*c >= ' ' && *c <= '~');
}

/* The list of each of some processes can be read, and a text for one process is for all. */
static void check_per_rank(const char *text)
{
    for (size_t rank = 0; rank < 3; rank++) {
        const dpti_process_name process = {
            .rank = rank, .rank_known = true, .host = "left.example.org"};
        dpt_error error = {.status = DPT_OK};
        dpti_device_list list;
        char *mine = NULL;
        if (dpti_per_rank_list(text, &process, &mine, &error) != DPT_OK) {
            require(!mine && error.status != DPT_OK && dpti_is_per_rank(text));
            check_message(&error);
        } else if (dpti_is_per_rank(text)) {
            require(dpti_device_list_parse(mine, &list, &error) == DPT_OK);
            dpti_device_list_free(&list);
        } else {
            require(strcmp(mine, text) == 0);
        }
        free(mine);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text) return 0;
    if (size) memcpy(text, data, size);
    text[size] = '\0';
    dpt_error error = {.status = DPT_OK};
    dpti_device_list list;
    if (dpti_device_list_parse(text, &list, &error) == DPT_OK) {
        check_list(&list, &error);
        dpti_device_list_free(&list);
    }
    check_message(&error);
    check_per_rank(text);
    free(text);
    return 0;
}
