/* Tests device lists: the meaning of valid lists and the messages for invalid ones.  Needs no
   device: the registry is made by the test. */
#include "device/select.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

/* ---- A machine on paper ---------------------------------------------------------------------- */

static void *no_pointer(dpt_device *device, dpt_buffer *buffer)
{
    (void)device;
    (void)buffer;
    return NULL;
}

static const char *const places[] = {"near", "far", NULL};
static const dpt_param_spec host_params[] = {
    {.key = "threads", .help = "of the host", .type = DPT_PARAM_NUMBER, .min = 1, .max = 64},
    {.key = "pin", .help = "0 or 1"},
    {.key = "place", .help = "where", .type = DPT_PARAM_CHOICE, .choices = places},
    {.key = NULL},
};

static const dpt_param_spec card_params[] = {
    {.key = "precision",
     .help = "how",
     .type = DPT_PARAM_PRECISION,
     .precisions = 1u << DPT_PRECISION_FP32 | 1u << DPT_PRECISION_TF32},
    {.key = NULL},
};

static const dpt_memory_ops host_memory = {.host_pointer = no_pointer};
static const dpt_memory_ops card_memory = {.host_pointer = NULL};
static const dpt_backend card = {.name = "card", .memory = &card_memory, .params = card_params};
static const dpt_backend host = {.name = "host", .memory = &host_memory, .params = host_params};
static const dpt_backend any = {.name = "any", .memory = &card_memory};

typedef struct machine {
    dpti_registry registry;
    dpti_registry_backend backends[4]; /* any: 3 devices, card: 2, gone: none, host: 1 */
    dpti_registry_device any[3], card[2], host[1];
} machine;

static void set_device(dpti_registry_device *device, const char *id, const char *compute)
{
    snprintf(device->id, sizeof device->id, "%s", id);
    snprintf(device->info.compute_domain, sizeof device->info.compute_domain, "%s", compute);
}

/* Two cards; the host's cores; and a backend that reaches the host's cores (any:0), the second card
   (any:1) and something of its own (any:2), in the groups soft, hard and soft. */
static void make_machine(machine *m)
{
    memset(m, 0, sizeof *m);
    set_device(&m->any[0], "any:0", "cores");
    m->any[0].info.flags = DPT_DEVICE_IS_HOST_CPU;
    set_device(&m->any[1], "any:1", "");
    snprintf(m->any[1].info.pci_id, sizeof m->any[1].info.pci_id, "0000:02:00.0");
    set_device(&m->any[2], "any:2", "");
    for (size_t i = 0; i < 3; i++)
        snprintf(m->any[i].info.group, sizeof m->any[i].info.group, "%s", i == 1 ? "hard" : "soft");
    set_device(&m->card[0], "card:0", "card0");
    set_device(&m->card[1], "card:1", "card1");
    snprintf(m->card[0].info.pci_id, sizeof m->card[0].info.pci_id, "0000:01:00.0");
    snprintf(m->card[1].info.pci_id, sizeof m->card[1].info.pci_id, "0000:02:00.0");
    set_device(&m->host[0], "host", "cores");
    m->host[0].info.flags = DPT_DEVICE_IS_HOST_CPU;
    m->backends[0] = (dpti_registry_backend){
        .name = (char *)"any", .backend = &any, .n_devices = 3, .devices = m->any};
    m->backends[1] = (dpti_registry_backend){
        .name = (char *)"card", .backend = &card, .n_devices = 2, .devices = m->card};
    m->backends[2] =
        (dpti_registry_backend){.name = (char *)"gone", .reason = (char *)"libgone.so is missing"};
    m->backends[3] = (dpti_registry_backend){
        .name = (char *)"host", .backend = &host, .n_devices = 1, .devices = m->host};
    m->registry = (dpti_registry){.n_backends = 4, .backends = m->backends};
}

/* Parses and selects; writes the ids, joined by spaces. */
static dpt_status resolve(const dpti_registry *registry, const char *text, char ids[2048],
                          dpt_error *error)
{
    dpti_device_list list = {.n_entries = 0};
    dpti_selection selection = {.n_devices = 0};
    memset(error, 0, sizeof *error);
    ids[0] = '\0';
    dpt_status status = dpti_device_list_parse(text, &list, error);
    if (status == DPT_OK) status = dpti_select(registry, &list, &selection, error);
    for (size_t i = 0, length = 0; status == DPT_OK && i < selection.n_devices; i++)
        length += (size_t)snprintf(ids + length, 2048 - length, "%s%s", i ? " " : "",
                                   selection.devices[i].id);
    dpti_selection_free(&selection);
    dpti_device_list_free(&list);
    return status;
}

/* ---- Lists that mean something --------------------------------------------------------------- */

static void means(test *t)
{
    static const struct {
        const char *text, *ids;
    } cases[] = {
        {"host", "host"},
        {"host,host", "host host"},
        {"card", "card"},
        {"card:0,card:1", "card:0 card:1"},
        {"card:1,host:threads=4,card", "card:1 host:threads=4 card"},
        {"card:all", "card:0 card:1"},
        {"card:all:memory=2G", "card:0:memory=2G card:1:memory=2G"},
        {"host:all:threads=2", "host:threads=2"},
        {"host:0:threads=2:pin=1:throttle=2.5", "host:0:threads=2:pin=1:throttle=2.5"},
        {"host:pin==", "host:pin=="},
        {"any:soft", "any:soft"},
        {"any:soft:1:memory=2G", "any:soft:1:memory=2G"},
        {"any:hard:all", "any:1"},
        {"any:soft:all:memory=2G", "any:0:memory=2G any:2:memory=2G"},
        {"any:all,any:soft:all", "any:0 any:1 any:2 any:0 any:2"},
    };
    machine m;
    make_machine(&m);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char ids[2048];
        dpt_error error;
        if (CHECK_OK(resolve(&m.registry, cases[i].text, ids, &error)))
            CHECK_TEXT(ids, cases[i].ids);
    }
}

static void all_takes_hardware_once(test *t)
{
    machine m;
    char ids[2048];
    dpt_error error;
    make_machine(&m);
    /* any:0 are the host's cores, reached in a roundabout way, though its name sorts first;
       any:1 comes before card:1, which is the same card. */
    CHECK_OK(resolve(&m.registry, "all", ids, &error));
    CHECK_TEXT(ids, "any:1 any:2 card:0 host");
    /* Without the host's own backend the roundabout way is the only one. */
    m.registry.n_backends = 3;
    CHECK_OK(resolve(&m.registry, "all", ids, &error));
    CHECK_TEXT(ids, "any:0 any:1 any:2 card:0");
    /* The same UUID is the same card. */
    memset(m.card[0].info.uuid, 7, sizeof m.card[0].info.uuid);
    memset(m.any[2].info.uuid, 7, sizeof m.any[2].info.uuid);
    CHECK_OK(resolve(&m.registry, "all", ids, &error));
    CHECK_TEXT(ids, "any:0 any:1 any:2");
    /* A device that cannot say what it is. */
    m.any[2].status = DPT_E_DEVICE;
    CHECK_OK(resolve(&m.registry, "all", ids, &error));
    CHECK_TEXT(ids, "any:0 any:1 card:0");
    /* What is named besides stands twice. */
    CHECK_OK(resolve(&m.registry, "any:1,all", ids, &error));
    CHECK_TEXT(ids, "any:1 any:0 any:1 card:0");
}

static void reads_parameters(test *t)
{
    dpti_device_list list;
    dpt_error error;
    REQUIRE_OK(
        dpti_device_list_parse("a,b:3:memory=2G:x=1:throttle=1.5:y=z,c:all,all", &list, &error));
    CHECK_SIZE(list.n_entries, 4);
    CHECK(list.entries[0].kind == DPTI_ENTRY_ONE);
    CHECK_SIZE(list.entries[0].index, 0);
    CHECK_SIZE(list.entries[0].memory_limit_bytes, SIZE_MAX);
    CHECK_NEAR(list.entries[0].throttle, 1.0, 0.0);
    CHECK_TEXT(list.entries[0].suffix, "");
    const dpti_device_entry *b = &list.entries[1];
    CHECK_TEXT(b->name, "b");
    CHECK_SIZE(b->index, 3);
    CHECK_SIZE(b->memory_limit_bytes, (size_t)2 << 30);
    CHECK_NEAR(b->throttle, 1.5, 0.0);
    CHECK_SIZE(b->n_params, 2);
    CHECK_TEXT(b->params[0].key, "x");
    CHECK_TEXT(b->params[1].text, "z");
    CHECK_TEXT(b->suffix, ":memory=2G:x=1:throttle=1.5:y=z");
    CHECK(list.entries[2].kind == DPTI_ENTRY_SEVERAL);
    CHECK(list.entries[3].kind == DPTI_ENTRY_ALL);
    CHECK(!b->group && !list.entries[3].group);
    dpti_device_list_free(&list);
    REQUIRE_OK(dpti_device_list_parse("a:soft,a:hard:3:x=1,a:soft:all", &list, &error));
    CHECK_TEXT(list.entries[0].group, "soft");
    CHECK(list.entries[0].kind == DPTI_ENTRY_ONE && list.entries[0].index == 0);
    CHECK_TEXT(list.entries[1].group, "hard");
    CHECK_SIZE(list.entries[1].index, 3);
    CHECK_TEXT(list.entries[1].suffix, ":x=1");
    CHECK_SIZE(list.entries[1].n_params, 1);
    CHECK(list.entries[2].kind == DPTI_ENTRY_SEVERAL);
    dpti_device_list_free(&list);
}

/* Which device of the backend the first entry of a list means. */
static size_t index_of(test *t, const machine *m, const char *text)
{
    dpti_device_list list;
    dpti_selection selection;
    dpt_error error;
    size_t index = SIZE_MAX;
    if (!CHECK_OK(dpti_device_list_parse(text, &list, &error))) return index;
    if (CHECK_OK(dpti_select(&m->registry, &list, &selection, &error))) {
        index = selection.devices[0].index;
        dpti_selection_free(&selection);
    }
    dpti_device_list_free(&list);
    return index;
}

/* The values reach a backend as it declares them. */
static void types_parameters(test *t)
{
    machine m;
    dpti_device_list list;
    dpti_selection selection;
    dpt_error error;
    make_machine(&m);
    REQUIRE_OK(dpti_device_list_parse(
        "host:pin=x1:memory=2G:place=far:threads=64,card:all:precision=tf32,host:place=near", &list,
        &error));
    REQUIRE_OK(dpti_select(&m.registry, &list, &selection, &error));
    CHECK_SIZE(selection.n_devices, 4);
    const dpti_selected *first = &selection.devices[0];
    CHECK_SIZE(first->n_params, 3);
    CHECK_TEXT(first->params[0].key, "pin");
    CHECK_TEXT(first->params[0].text, "x1");
    CHECK_SIZE(first->params[0].number, 0);
    CHECK_TEXT(first->params[1].text, "far");
    CHECK_SIZE(first->params[1].number, 1);
    CHECK_TEXT(first->params[2].key, "threads");
    CHECK_SIZE(first->params[2].number, 64);
    CHECK(!first->has_precision && first->precision == DPT_PRECISION_FP32);
    for (size_t i = 1; i < 3; i++) {
        CHECK_SIZE(selection.devices[i].n_params, 0);
        CHECK(selection.devices[i].has_precision);
        CHECK(selection.devices[i].precision == DPT_PRECISION_TF32);
    }
    CHECK_SIZE(selection.devices[3].params[0].number, 0);
    CHECK_TEXT(selection.devices[3].params[0].text, "near");
    dpti_selection_free(&selection);
    dpti_device_list_free(&list);
}

/* Cards take a precision and the host does not; what the list says stands. */
static void precision(test *t)
{
    machine m;
    dpti_device_list list;
    dpti_selection selection;
    dpt_error error;
    make_machine(&m);
    REQUIRE_OK(dpti_device_list_parse("card:0,host,card:1:precision=fp32,card", &list, &error));
    REQUIRE_OK(dpti_select(&m.registry, &list, &selection, &error));
    CHECK_OK(dpti_selection_set_precision(&selection, "tf32", &error));
    CHECK_TEXT(selection.devices[0].id, "card:0:precision=tf32");
    CHECK_SIZE(selection.devices[0].n_params, 0);
    CHECK(selection.devices[0].precision == DPT_PRECISION_TF32);
    CHECK_TEXT(selection.devices[1].id, "host");
    CHECK(selection.devices[1].precision == DPT_PRECISION_FP32);
    CHECK_TEXT(selection.devices[2].id, "card:1:precision=fp32");
    CHECK(selection.devices[2].precision == DPT_PRECISION_FP32);
    CHECK(selection.devices[3].precision == DPT_PRECISION_TF32);
    dpti_selection_free(&selection);
    dpti_device_list_free(&list);

    REQUIRE_OK(dpti_device_list_parse("host:threads=2", &list, &error));
    REQUIRE_OK(dpti_select(&m.registry, &list, &selection, &error));
    CHECK_STATUS(dpti_selection_set_precision(&selection, "tf32", &error), DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "no device computes in tf32: host:threads=2 computes in fp32");
    dpti_selection_free(&selection);
    dpti_device_list_free(&list);

    REQUIRE_OK(dpti_device_list_parse("card:0", &list, &error));
    REQUIRE_OK(dpti_select(&m.registry, &list, &selection, &error));
    CHECK_STATUS(dpti_selection_set_precision(&selection, "bf16", &error), DPT_E_INVALID);
    CHECK_STATUS(dpti_selection_set_precision(&selection, "half", &error), DPT_E_INVALID);
    CHECK_TEXT(selection.devices[0].id, "card:0");
    dpti_selection_free(&selection);
    dpti_device_list_free(&list);
}

static void counts_in_groups(test *t)
{
    machine m;
    make_machine(&m);
    CHECK_SIZE(index_of(t, &m, "any:soft"), 0);
    CHECK_SIZE(index_of(t, &m, "any:soft:0"), 0);
    CHECK_SIZE(index_of(t, &m, "any:soft:1"), 2);
    CHECK_SIZE(index_of(t, &m, "any:hard:0"), 1);
    CHECK_SIZE(index_of(t, &m, "any:2"), 2);
    /* A device that cannot say what it is is in no group. */
    m.any[0].status = DPT_E_DEVICE;
    CHECK_SIZE(index_of(t, &m, "any:soft"), 2);
    CHECK_SIZE(index_of(t, &m, "any"), 0);
}

/* Two devices that are the host's cores, of one group, beside the host's own backend. */
static void all_leaves_the_host_to_its_own(test *t)
{
    machine m;
    char ids[2048];
    dpt_error error;
    make_machine(&m);
    snprintf(m.any[2].info.compute_domain, sizeof m.any[2].info.compute_domain, "cores");
    m.any[2].info.flags = DPT_DEVICE_IS_HOST_CPU;
    CHECK_OK(resolve(&m.registry, "all", ids, &error));
    CHECK_TEXT(ids, "any:1 card:0 host");
    /* Who names them gets them, the same cores twice or not. */
    CHECK_OK(resolve(&m.registry, "any:all", ids, &error));
    CHECK_TEXT(ids, "any:0 any:1 any:2");
    CHECK_OK(resolve(&m.registry, "any:soft:all", ids, &error));
    CHECK_TEXT(ids, "any:0 any:2");
    CHECK_OK(resolve(&m.registry, "all,any:soft:1", ids, &error));
    CHECK_TEXT(ids, "any:1 card:0 host any:soft:1");
    /* The flag is enough: another backend may have another word for the cores. */
    m.any[0].info.compute_domain[0] = '\0';
    snprintf(m.any[2].info.compute_domain, sizeof m.any[2].info.compute_domain, "package");
    CHECK_OK(resolve(&m.registry, "all", ids, &error));
    CHECK_TEXT(ids, "any:1 card:0 host");
    /* So is the domain. */
    m.any[2].info.flags = 0;
    snprintf(m.any[2].info.compute_domain, sizeof m.any[2].info.compute_domain, "cores");
    CHECK_OK(resolve(&m.registry, "all", ids, &error));
    CHECK_TEXT(ids, "any:1 card:0 host");
    /* Without the host's own backend the first of those that share the cores stands for all. */
    m.registry.n_backends = 3;
    snprintf(m.any[0].info.compute_domain, sizeof m.any[0].info.compute_domain, "cores");
    CHECK_OK(resolve(&m.registry, "all", ids, &error));
    CHECK_TEXT(ids, "any:0 any:1 card:0");
}

/* ---- Lists that mean nothing ----------------------------------------------------------------- */

static void complains(test *t)
{
    static const struct {
        const char *text;
        dpt_status status;
        const char *part;
    } cases[] = {
        {"", DPT_E_INVALID, "empty"},
        {",", DPT_E_INVALID, "without a name"},
        {"host,", DPT_E_INVALID, "without a name"},
        {"host,,host", DPT_E_INVALID, "without a name"},
        {":0", DPT_E_INVALID, "without a name"},
        {"host:", DPT_E_INVALID, "behind a colon"},
        {"host:0:", DPT_E_INVALID, "behind a colon"},
        {"host::threads=1", DPT_E_INVALID, "behind a colon"},
        {"host, host", DPT_E_INVALID, "position 6"},
        {"host\n", DPT_E_INVALID, "position 5"},
        {"h\xc3\xb6st", DPT_E_INVALID, "position 2"},
        {"host:threads", DPT_E_INVALID, "host has no groups, so no \"threads\": behind the name"},
        {"host:-1", DPT_E_INVALID, "neither an index"},
        {"host:65536", DPT_E_INVALID, "neither an index"},
        {"host:99999999999999999999", DPT_E_INVALID, "neither an index"},
        {"host:threads=1:0", DPT_E_INVALID, "key=value"},
        {"host:0:1", DPT_E_INVALID, "key=value"},
        {"host:threads=", DPT_E_INVALID, "lacks a value"},
        {"host:=4", DPT_E_INVALID, "no name of a parameter"},
        {"host:Threads=4", DPT_E_INVALID, "no name of a parameter"},
        {"host:threads=1:threads=2", DPT_E_INVALID, "\"threads\" is given twice"},
        {"host:memory=1G:memory=1G", DPT_E_INVALID, "\"memory\" is given twice"},
        {"host:throttle=1:throttle=1", DPT_E_INVALID, "\"throttle\" is given twice"},
        {"host:memory=0", DPT_E_INVALID, "not a size"},
        {"host:memory=2X", DPT_E_INVALID, "not a size"},
        {"host:memory=99999999T", DPT_E_INVALID, "not a size"},
        {"host:throttle=0.5", DPT_E_INVALID, "from 1"},
        {"host:throttle=nan", DPT_E_INVALID, "from 1"},
        {"host:tread=2", DPT_E_INVALID, "did you mean \"threads\"?"},
        {"host:tread=2", DPT_E_INVALID, "known: memory, throttle, threads, pin, place"},
        {"card:threads=2", DPT_E_INVALID, "known: memory, throttle"},
        {"host:threads=0", DPT_E_INVALID,
         "threads=0 is not a number from 1 to 64; threads: of the"},
        {"host:threads=65", DPT_E_INVALID, "threads=65 is not a number from 1 to 64"},
        {"host:threads=+1", DPT_E_INVALID, "threads=+1 is not a number from 1 to 64"},
        {"host:place=here", DPT_E_INVALID,
         "\"host:place=here\": place=here is neither near nor far"},
        {"card:precision=bf16", DPT_E_INVALID, "precision=bf16 is neither fp32 nor tf32"},
        {"card:precision=half", DPT_E_INVALID, "precision=half is neither fp32 nor tf32"},
        {"host:precision=fp32", DPT_E_INVALID, "unknown parameter \"precision\"; known: memory,"},
        {"all:memory=1G", DPT_E_INVALID, "takes no index"},
        {"all:0", DPT_E_INVALID, "takes no index"},
        {"hots", DPT_E_INVALID, "did you mean \"host\"?"},
        {"HOST", DPT_E_INVALID, "did you mean \"host\"?"},
        {"tpu:0", DPT_E_INVALID,
         "known: any, card, gone, host; there is no plug-in libdptrain-tpu.so"},
        {"card:2", DPT_E_INVALID, "has 2 devices"},
        {"any:sfot", DPT_E_INVALID, "known: soft, hard (did you mean \"soft\"?)"},
        {"any:SOFT:all", DPT_E_INVALID, "no group \"SOFT\"; known: soft, hard (did you mean"},
        {"any:zzzzz", DPT_E_INVALID, "any has no group \"zzzzz\"; known: soft, hard"},
        {"any:soft:2", DPT_E_INVALID, "group soft of any has 2 devices, numbered from 0"},
        {"any:hard:1", DPT_E_INVALID, "group hard of any has 1 device, numbered from 0"},
        {"any:soft:hard", DPT_E_INVALID, "\"hard\" is neither an index"},
        {"any:0:soft", DPT_E_INVALID, "key=value"},
        {"any:all:soft", DPT_E_INVALID, "key=value"},
        {"any:soft:0:1", DPT_E_INVALID, "key=value"},
        {"any:soft:", DPT_E_INVALID, "behind a colon"},
        {"any:soft:memory=1G:0", DPT_E_INVALID, "key=value"},
        {"any:1x", DPT_E_INVALID, "neither an index"},
        {"gone:soft", DPT_E_ABSENT, "libgone.so is missing"},
        {"host:1", DPT_E_INVALID, "has 1 device,"},
        {"gone", DPT_E_ABSENT, "libgone.so is missing"},
        {"host,gone:all", DPT_E_ABSENT, "libgone.so is missing"},
        {"host:threads=12345678901234567890123456789012345678901234567890123", DPT_E_INVALID,
         "longer than 63"},
    };
    machine m;
    make_machine(&m);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char ids[2048];
        dpt_error error;
        const dpt_status status = resolve(&m.registry, cases[i].text, ids, &error);
        if (!CHECK_STATUS(status, cases[i].status) || !CHECK_CONTAINS(error.message, cases[i].part))
            FAIL("list \"%s\"", cases[i].text);
        CHECK(error.status == status);
        CHECK(strchr(error.message, '\n') == NULL);
    }
}

static void complains_without_backends(test *t)
{
    char searched[] = "/opt/one, /opt/two";
    const dpti_registry none = {.searched = searched};
    char ids[2048];
    dpt_error error;
    CHECK_STATUS(resolve(&none, "all", ids, &error), DPT_E_ABSENT);
    CHECK_CONTAINS(error.message, "/opt/one, /opt/two");
    CHECK_STATUS(resolve(&none, "host", ids, &error), DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "/opt/one, /opt/two");

    machine m;
    make_machine(&m);
    const dpti_registry absent = {.n_backends = 1, .backends = &m.backends[2]};
    CHECK_STATUS(resolve(&absent, "all", ids, &error), DPT_E_ABSENT);
    CHECK_CONTAINS(error.message, "gone: libgone.so is missing");
}

static void limits_lengths(test *t)
{
    enum { N = 257 };
    machine m;
    make_machine(&m);
    char text[N * 5 + 1], ids[2048];
    for (size_t i = 0; i < N; i++)
        memcpy(text + 5 * i, "host,", 5);
    text[N * 5 - 1] = '\0';
    dpt_error error;
    CHECK_STATUS(resolve(&m.registry, text, ids, &error), DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "257");
    text[256 * 5 - 1] = '\0';
    CHECK_OK(resolve(&m.registry, text, ids, &error));
    /* More by way of a word that means several. */
    char several[86 * 8 + 1];
    for (size_t i = 0; i < 86; i++)
        memcpy(several + 8 * i, "any:all,", 8);
    several[86 * 8 - 1] = '\0';
    CHECK_STATUS(resolve(&m.registry, several, ids, &error), DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "more than 256");

    char *huge = malloc(DPTI_MAX_LIST_BYTES + 2);
    REQUIRE(huge);
    memset(huge, 'a', DPTI_MAX_LIST_BYTES + 1);
    huge[DPTI_MAX_LIST_BYTES + 1] = '\0';
    CHECK_STATUS(resolve(&m.registry, huge, ids, &error), DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "longer than 16384");
    free(huge);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"means", means},
        {"all_takes_hardware_once", all_takes_hardware_once},
        {"counts_in_groups", counts_in_groups},
        {"precision", precision},
        {"all_leaves_the_host_to_its_own", all_leaves_the_host_to_its_own},
        {"reads_parameters", reads_parameters},
        {"types_parameters", types_parameters},
        {"complains", complains},
        {"complains_without_backends", complains_without_backends},
        {"limits_lengths", limits_lengths},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
