/* Tests the registry, invalid plug-in files, and opening and closing device sets. */
#include "base/clock.h"
#include "context/context.h"
#include "context_create.h"
#include "device/descriptor.h"
#include "device/plugin.h"
#include "device/registry.h"
#include "device/throttle.h"
#include "harness.h"
#include "unit/fake_backend.h"

#include <signal.h>
#include <sys/stat.h>
#include <time.h>

static void reset(void)
{
    memset(&fake_control, 0, sizeof fake_control);
}

static bool nothing_left(test *t)
{
    bool held = CHECK(atomic_load(&fake_control.n_open) == 0);
    held = CHECK(atomic_load(&fake_control.n_buffers) == 0) && held;
    held = CHECK(atomic_load(&fake_control.n_streams) == 0) && held;
    held = CHECK(atomic_load(&fake_control.n_ops) == 0) && held;
    return CHECK(atomic_load(&fake_control.foreign_calls) == 0) && held;
}

static dpt_context *make_context(test *t)
{
    dpt_context *context = NULL;
    reset();
    if (!CHECK_OK(dpti_context_create_empty(&context))) return NULL;
    CHECK_OK(dpti_registry_add(context->registry, "fake", &fake_backend));
    return context;
}

/* ---- Status and messages --------------------------------------------------------------------- */

static void names_statuses(test *t)
{
    CHECK_TEXT(dpt_status_name(DPT_OK), "DPT_OK");
    CHECK_TEXT(dpt_status_name(DPT_E_FORMAT), "DPT_E_FORMAT");
    CHECK_TEXT(dpt_version(), DPT_VERSION);
    CHECK_TEXT(dpt_status_words(DPT_E_FORMAT), "malformed data");
    CHECK(dpt_status_name((dpt_status)-99) != NULL);
    CHECK(dpt_status_words((dpt_status)7) != NULL);
}

static void keeps_the_last_failure(test *t)
{
    dpt_context *context = make_context(t);
    REQUIRE(context);
    CHECK_TEXT(dpt_error_message(context), "no error");
    CHECK_STATUS(dpt_fail(context, DPT_E_IO, "%s: %d", "file", 3), DPT_E_IO);
    CHECK_TEXT(dpt_error_message(context), "file: 3");
    /* A message that quotes the one before it. */
    CHECK_STATUS(dpt_fail(context, DPT_E_IO, "again: %s", dpt_error_message(context)), DPT_E_IO);
    CHECK_TEXT(dpt_error_message(context), "again: file: 3");

    /* One line, whatever the name of a file is. */
    CHECK_STATUS(dpt_fail(context, DPT_E_IO, "%s is damaged", "a\n\033[31mb"), DPT_E_IO);
    CHECK_TEXT(dpt_error_message(context), "a ?[31mb is damaged");
    dpt_error error = {.status = DPT_OK};
    CHECK_STATUS(DPT_FAIL(&error, DPT_E_IO, "%s\x7f", "a\r\n"), DPT_E_IO);
    CHECK_TEXT(error.message, "a  ?");

    error = (dpt_error){.status = DPT_E_DEVICE, .native = 7};
    memset(error.message, 'x', sizeof error.message - 1);
    CHECK_STATUS(dpti_context_fail(context, "device fake:1", &error), DPT_E_DEVICE);
    CHECK_SIZE(strlen(dpt_error_message(context)), DPT_MESSAGE_BYTES - 1);
    CHECK(strncmp(dpt_error_message(context), "device fake:1: xxx", 18) == 0);
    CHECK(context->error.native == 7);
    error.message[0] = '\0';
    CHECK_STATUS(dpti_context_fail(context, NULL, &error), DPT_E_DEVICE);
    CHECK_TEXT(dpt_error_message(context), "device error");
    dpt_context_destroy(context);
    dpt_context_destroy(NULL);
}

/* ---- Descriptors ----------------------------------------------------------------------------- */

static dpt_status no_driver(size_t *n_devices, dpt_error *error)
{
    (void)n_devices;
    return DPT_FAIL(error, DPT_E_ABSENT, "no driver\nis installed");
}

static dpt_status no_device(size_t *n_devices, dpt_error *error)
{
    (void)error;
    *n_devices = 0;
    return DPT_OK;
}

static void free_host(dpt_device *device, void *host)
{
    (void)device;
    free(host);
}

static void sorts_backends(test *t)
{
    dpt_context *context = make_context(t);
    REQUIRE(context);
    CHECK_OK(dpti_registry_add_absent(context->registry, "zeta", "it is gone"));
    CHECK_OK(dpti_registry_add_absent(context->registry, "alpha", "so is this"));
    CHECK_STATUS(dpti_registry_add(context->registry, "fake", &fake_backend), DPT_E_INVALID);
    REQUIRE(dpt_backend_count(context) == 3);
    CHECK_TEXT(dpt_backend_name(context, 0), "alpha");
    CHECK_TEXT(dpt_backend_name(context, 1), "fake");
    CHECK_TEXT(dpt_backend_name(context, 2), "zeta");
    CHECK_TEXT(dpt_backend_reason(context, 0), "so is this");
    CHECK(dpt_backend_reason(context, 1) == NULL);
    CHECK_SIZE(dpt_backend_device_count(context, 0), 0);
    CHECK_SIZE(dpt_backend_device_count(context, 1), 2);
    dpt_device_info d = {.size = sizeof d};
    REQUIRE_OK(dpt_backend_describe(context, 1, 1, &d));
    CHECK_TEXT(d.id, "fake:1");
    CHECK_TEXT(d.backend, "fake");
    CHECK_TEXT(d.name, "Fake 1");
    CHECK_STATUS(dpt_backend_describe(context, 1, 2, &d), DPT_E_INVALID);
    CHECK_STATUS(dpt_backend_describe(context, 0, 0, &d), DPT_E_INVALID);
    CHECK_STATUS(dpt_backend_describe(context, 3, 0, &d), DPT_E_INVALID);
    CHECK(dpt_backend_name(context, 3) == NULL);
    dpt_context_destroy(context);
}

/* Of three devices: the groups "two", none, "two"; or, of the backend "wrong", no name. */
static dpt_status three_devices(size_t *n_devices, dpt_error *error)
{
    (void)error;
    *n_devices = 3;
    return DPT_OK;
}

static dpt_status describe_grouped(size_t index, dpt_device_properties *info, dpt_error *error)
{
    DPT_TRY(fake_describe(index, info, error));
    if (index != 1) snprintf(info->group, sizeof info->group, "two");
    return DPT_OK;
}

static dpt_status describe_wrongly(size_t index, dpt_device_properties *info, dpt_error *error)
{
    DPT_TRY(fake_describe(index, info, error));
    memset(info->group, 'x', sizeof info->group);
    if (index == 1) snprintf(info->group, sizeof info->group, "all");
    if (index == 2) snprintf(info->group, sizeof info->group, "Two");
    return DPT_OK;
}

static void sorts_devices_into_groups(test *t)
{
    dpt_context *context = NULL;
    REQUIRE_OK(dpti_context_create_empty(&context));
    dpt_device_ops grouped = fake_device_ops, wrongly = fake_device_ops;
    grouped.probe = wrongly.probe = three_devices;
    grouped.describe = describe_grouped;
    wrongly.describe = describe_wrongly;
    dpt_backend fake = fake_backend, wrong = fake_backend;
    fake.device = &grouped;
    wrong.name = "wrong";
    wrong.device = &wrongly;
    CHECK_OK(dpti_registry_add(context->registry, "fake", &fake));
    CHECK_OK(dpti_registry_add(context->registry, "wrong", &wrong));
    static const char *const aliases[] = {"fake:two:0", "", "fake:two:1"};
    dpt_device_info d = {.size = sizeof d};
    for (size_t i = 0; i < 3; i++) {
        REQUIRE_OK(dpt_backend_describe(context, 0, i, &d));
        CHECK_TEXT(d.alias, aliases[i]);
    }
    CHECK_TEXT(d.id, "fake:2");
    /* 15 characters are a name, which core cuts there. */
    REQUIRE_OK(dpt_backend_describe(context, 1, 0, &d));
    CHECK_TEXT(d.alias, "wrong:xxxxxxxxxxxxxxx:0");
    CHECK_STATUS(dpt_backend_describe(context, 1, 1, &d), DPT_E_INTERNAL);
    CHECK_CONTAINS(dpt_error_message(context), "into a group whose name is none");
    CHECK_STATUS(dpt_backend_describe(context, 1, 2, &d), DPT_E_INTERNAL);

    dpt_device_set *set = NULL;
    REQUIRE_OK(dpt_device_set_open(context, "fake:two:1,fake:two:all", &set));
    REQUIRE(dpt_device_set_count(set) == 3);
    dpt_device_describe(dpt_device_set_get(set, 0), &d);
    CHECK_TEXT(d.id, "fake:two:1");
    CHECK_TEXT(d.alias, "fake:two:1");
    dpt_device_describe(dpt_device_set_get(set, 1), &d);
    CHECK_TEXT(d.id, "fake:0");
    CHECK_TEXT(d.alias, "fake:two:0");
    dpt_device_set_close(set);
    dpt_context_destroy(context);
}

static void take_signal(int number)
{
    (void)number;
}

/* As a compiler inside a driver does. */
static dpt_status probe_and_take_signals(size_t *n_devices, dpt_error *error)
{
    signal(SIGINT, take_signal);
    signal(SIGHUP, take_signal);
    return fake_probe(n_devices, error);
}

static void keeps_signals(test *t)
{
    dpt_context *context = NULL;
    struct sigaction now;
    dpt_device_ops device = fake_device_ops;
    dpt_backend fake = fake_backend;
    device.probe = probe_and_take_signals;
    fake.device = &device;
    void (*const before)(int) = signal(SIGHUP, SIG_IGN);
    REQUIRE_OK(dpti_context_create_empty(&context));
    CHECK_OK(dpti_registry_add(context->registry, "fake", &fake));
    CHECK_SIZE(dpt_backend_device_count(context, 0), 2);
    CHECK(sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == SIG_IGN);
    CHECK(sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler != take_signal);
    signal(SIGHUP, before);
    dpt_context_destroy(context);
}

static atomic_int is_held;

static dpt_status describe_or_hang(size_t index, dpt_device_properties *info, dpt_error *error)
{
    while (index == 1 && atomic_load(&is_held))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return fake_describe(index, info, error);
}

/* Those before it are as ever, and those behind it are not asked. */
static void one_does_not_answer(test *t)
{
    dpt_context *context = NULL;
    dpt_device_set *set = NULL;
    dpt_device_info d = {.size = sizeof d};
    static dpt_device_ops device; /* for a thread that is late */
    static dpt_backend fake;
    device = fake_device_ops;
    fake = fake_backend;
    device.probe = three_devices;
    device.describe = describe_or_hang;
    fake.device = &device;
    reset();
    atomic_store(&is_held, 1);
    REQUIRE_OK(dpti_context_create_empty(&context));
    context->device_timeout = 0.02;
    CHECK_OK(dpti_registry_add(context->registry, "fake", &fake));
    CHECK_SIZE(dpt_context_abandoned(context), 1);
    CHECK_STATUS(dpt_backend_status(context, 0), DPT_OK);
    CHECK_SIZE(dpt_backend_device_count(context, 0), 3);
    REQUIRE_OK(dpt_backend_describe(context, 0, 0, &d));
    CHECK_TEXT(d.name, "Fake 0");
    CHECK_STATUS(dpt_backend_describe(context, 0, 1, &d), DPT_E_DEVICE_LOST);
    CHECK_CONTAINS(dpt_error_message(context), "fake:1: no answer within 0.2 s when it was asked");
    CHECK_STATUS(dpt_backend_describe(context, 0, 2, &d), DPT_E_DEVICE_LOST);
    CHECK_CONTAINS(dpt_error_message(context), "fake:2: not asked, since device 1 gave no answer");
    CHECK_STATUS(dpt_device_set_open(context, "fake:all", &set), DPT_E_DEVICE_LOST);
    CHECK_CONTAINS(dpt_error_message(context), "device fake:1: no answer");
    CHECK_STATUS(dpt_device_set_open(context, "fake:2", &set), DPT_E_DEVICE_LOST);
    context->device_timeout = 0;
    REQUIRE_OK(dpt_device_set_open(context, "all,fake:0", &set));
    CHECK_SIZE(dpt_device_set_count(set), 2);
    dpt_device_set_close(set);
    nothing_left(t);
    atomic_store(&is_held, 0); /* it comes back, to what is left of it */
    dpt_context_destroy(context);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
}

/* Core parses values by these declarations, so a wrong one is refused before a list is read. */
static void checks_parameters(test *t)
{
    static const char *const none[] = {NULL};
    static const struct {
        dpt_param_spec spec;
        const char *fault;
    } cases[] = {
        {{.key = "n", .help = "", .type = DPT_PARAM_NUMBER, .min = 2, .max = 1}, "n= has no poss"},
        {{.key = "c", .help = "", .type = DPT_PARAM_CHOICE}, "c= has no choices"},
        {{.key = "c", .help = "", .type = DPT_PARAM_CHOICE, .choices = none}, "c= has no choices"},
        {{.key = "precision", .help = ""}, "precision= is not of the type"},
        {{.key = "p", .help = "", .type = DPT_PARAM_PRECISION, .precisions = 1}, "p= has the type"},
        {{.key = "precision", .help = "", .type = DPT_PARAM_PRECISION}, "has no precisions"},
        {{.key = "precision", .help = "", .type = DPT_PARAM_PRECISION, .precisions = 1u << 9},
         "has no precisions, or unknown"},
        {{.key = "t", .help = "", .type = (dpt_param_type)17}, "t= has an unknown type"},
        {{.key = "t"}, "t= has no help"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const dpt_param_spec specs[] = {{.key = "fine", .help = ""}, cases[i].spec, {.key = NULL}};
        dpt_backend b = fake_backend;
        dpt_error error;
        b.params = specs;
        CHECK_STATUS(dpti_descriptor_check("fake", &b, &error), DPT_E_INVALID);
        CHECK_CONTAINS(error.message, cases[i].fault);
    }
}

static void checks_descriptors(test *t)
{
    dpt_memory_ops memory = fake_memory_ops;
    dpt_device_ops device = fake_device_ops;
    dpt_operator_ops operators = fake_operator_ops;
    dpt_backend b = fake_backend;
    dpt_error error;
    b.memory = &memory;
    b.device = &device;
    b.operators = &operators;
    CHECK_OK(dpti_descriptor_check("fake", &b, &error));
    CHECK_STATUS(dpti_descriptor_check("other", &b, &error), DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "calls itself \"fake\"");
    b.abi++;
    CHECK_STATUS(dpti_descriptor_check("fake", &b, &error), DPT_E_UNSUPPORTED);
    b.abi--;
    memory.upload = NULL;
    CHECK_STATUS(dpti_descriptor_check("fake", &b, &error), DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "memory.upload");
    memory = fake_memory_ops;
    memory.wrap_host = NULL;
    memory.host_pointer = NULL;
    CHECK_OK(dpti_descriptor_check("fake", &b, &error));
    memory.host_free = free_host;
    CHECK_STATUS(dpti_descriptor_check("fake", &b, &error), DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "memory.host_alloc");
    memory = fake_memory_ops;
    operators.run = NULL;
    CHECK_STATUS(dpti_descriptor_check("fake", &b, &error), DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "operators.run");
    operators = fake_operator_ops;
    b.stream = NULL;
    CHECK_STATUS(dpti_descriptor_check("fake", &b, &error), DPT_E_INVALID);
    b.stream = &fake_stream_ops;
    const dpt_capture_ops capture = {.begin = NULL};
    b.capture = &capture;
    CHECK_STATUS(dpti_descriptor_check("fake", &b, &error), DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "capture.begin");
    CHECK(!dpti_backend_name_valid("all"));
    CHECK(!dpti_backend_name_valid("Fake"));
    CHECK(!dpti_backend_name_valid("a:b"));
    CHECK(!dpti_backend_name_valid(""));
    CHECK(dpti_backend_name_valid("cu2-x_"));
    CHECK(dpti_group_name_valid("a2"));
    CHECK(!dpti_group_name_valid("2a"));
    CHECK(!dpti_group_name_valid("a-b"));
    CHECK(!dpti_group_name_valid("abcdefghijklmnop"));
}

static void absent_backends_have_reasons(test *t)
{
    dpt_context *context = NULL;
    REQUIRE_OK(dpti_context_create_empty(&context));
    dpt_device_ops without_driver = fake_device_ops, without_device = fake_device_ops;
    without_driver.probe = no_driver;
    without_device.probe = no_device;
    dpt_backend a = fake_backend, b = fake_backend, c = fake_backend;
    a.name = "a";
    a.device = &without_driver;
    b.name = "b";
    b.device = &without_device;
    CHECK_OK(dpti_registry_add(context->registry, "a", &a));
    CHECK_OK(dpti_registry_add(context->registry, "b", &b));
    CHECK_OK(dpti_registry_add(context->registry, "c", &c));
    CHECK_TEXT(dpt_backend_reason(context, 0), "no driver is installed");
    CHECK_TEXT(dpt_backend_reason(context, 1), "there is no device");
    CHECK_CONTAINS(dpt_backend_reason(context, 2), "calls itself \"fake\"");
    dpt_device_set *set = NULL;
    CHECK_STATUS(dpt_device_set_open(context, "a:0", &set), DPT_E_ABSENT);
    CHECK_CONTAINS(dpt_error_message(context), "no driver is installed");
    CHECK_STATUS(dpt_device_set_open(context, NULL, &set), DPT_E_ABSENT);
    CHECK(set == NULL);
    dpt_context_destroy(context);
}

/* ---- Plug-in files --------------------------------------------------------------------------- */

static void recognises_files(test *t)
{
    static const struct {
        const char *file, *name;
    } cases[] = {
        {"libdptrain-cpu.so", "cpu"}, {"libdptrain-.so", NULL},      {"libdptrain-cpu.so.1", NULL},
        {"libdptrain.so", NULL},      {"mylibdptrain-cpu.so", NULL}, {"libdptrain-cpu", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *name = NULL;
        REQUIRE_OK(dpti_plugin_name(cases[i].file, &name));
        if (cases[i].name)
            CHECK_TEXT(name, cases[i].name);
        else
            CHECK(name == NULL);
        free(name);
    }
}

static bool write_file(const char *folder, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (!file) return false;
    fputs("this is no library\n", file);
    return fclose(file) == 0;
}

static void remove_file(const char *folder, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
}

static void survives_broken_files(test *t)
{
    char folder[] = "/tmp/dptrain-registry-XXXXXX";
    REQUIRE(mkdtemp(folder) != NULL);
    REQUIRE(write_file(folder, "libdptrain-broken.so"));
    REQUIRE(write_file(folder, "libdptrain-Not A Name.so"));
    REQUIRE(write_file(folder, "README"));
    char path[300];
    snprintf(path, sizeof path, "::%s:/nonexistent/folder:%s", folder, folder);
    REQUIRE(setenv("DPTRAIN_BACKEND_PATH", path, 1) == 0);
    dpt_context *context = NULL;
    const bool created = CHECK_OK(dpt_context_create(&context));
    unsetenv("DPTRAIN_BACKEND_PATH");
    remove_file(folder, "README");
    remove_file(folder, "libdptrain-Not A Name.so");
    remove_file(folder, "libdptrain-broken.so");
    rmdir(folder);
    REQUIRE(created);
    const dpti_registry_backend *broken = dpti_registry_find(context->registry, "broken");
    REQUIRE(broken != NULL);
    CHECK_CONTAINS(broken->reason, "cannot be loaded");
    CHECK_CONTAINS(broken->reason, "libdptrain-broken.so");
    CHECK(dpti_registry_find(context->registry, "Not A Name") == NULL);
    CHECK(strncmp(context->registry->searched, folder, strlen(folder)) == 0);
    CHECK(strstr(context->registry->searched + strlen(folder), folder) == NULL);
    dpt_device_set *set = NULL;
    CHECK_STATUS(dpt_device_set_open(context, "broken", &set), DPT_E_ABSENT);
    CHECK_CONTAINS(dpt_error_message(context), "libdptrain-broken.so");
    dpt_context_destroy(context);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static void opens_and_closes(test *t)
{
    dpt_context *context = make_context(t);
    REQUIRE(context);
    dpt_device_set *set = NULL;
    REQUIRE_OK(
        dpt_device_set_open(context, "fake:1:threads=3,fake:memory=1000:throttle=2,fake:1", &set));
    CHECK_SIZE(dpt_device_set_count(set), 3);
    CHECK(atomic_load(&fake_control.n_open) == 3);
    CHECK_SIZE(atomic_load(&fake_control.n_requests), 3);
    CHECK_SIZE(atomic_load(&fake_control.self), 2);
    CHECK(dpt_device_set_get(set, 3) == NULL);
    dpt_device_info d = {.size = sizeof d};
    dpt_device_describe(dpt_device_set_get(set, 0), &d);
    CHECK_TEXT(d.id, "fake:1:threads=3");
    CHECK_TEXT(d.name, "Fake 1");
    CHECK_SIZE(d.memory_bytes, FAKE_MEMORY_BYTES);
    dpt_device_describe(dpt_device_set_get(set, 1), &d);
    CHECK_TEXT(d.id, "fake:memory=1000:throttle=2");
    CHECK_SIZE(d.memory_bytes, 1000);
    CHECK_NEAR(dpti_device_of(dpt_device_set_get(set, 1))->throttle, 2.0, 0.0);
    CHECK_OK(dpt_device_set_wait(set));
    dpt_device_set_close(set);
    dpt_device_set_close(NULL);
    nothing_left(t);
    dpt_context_destroy(context);
}

static void failures_unwind(test *t)
{
    dpt_context *context = make_context(t);
    REQUIRE(context);
    dpt_device_set *set = NULL;
    CHECK_STATUS(dpt_device_set_open(context, "fake:0,fake:1:threads=0", &set), DPT_E_INVALID);
    CHECK_TEXT(dpt_error_message(context), "device fake:1:threads=0: threads=0: from 1 to 64");
    nothing_left(t);
    /* A failure without a record still says what failed. */
    atomic_store(&fake_control.fail_open, 2);
    CHECK_STATUS(dpt_device_set_open(context, "fake:all", &set), DPT_E_DEVICE);
    CHECK_TEXT(dpt_error_message(context), "device fake:1: device.open failed: device error");
    nothing_left(t);
    atomic_store(&fake_control.fail_open, 0);
    atomic_store(&fake_control.fail_info, 2);
    CHECK_STATUS(dpt_device_set_open(context, "all", &set), DPT_E_DEVICE);
    CHECK_TEXT(dpt_error_message(context), "device fake:1: info is broken");
    nothing_left(t);
    atomic_store(&fake_control.fail_info, 0);
    atomic_store(&fake_control.fail_stream, 2);
    CHECK_STATUS(dpt_device_set_open(context, "fake,fake:1", &set), DPT_E_NO_MEMORY);
    CHECK_TEXT(dpt_error_message(context), "device fake:1: no stream left");
    nothing_left(t);
    CHECK(set == NULL);
    dpt_context_destroy(context);
}

/* ---- Throttles ------------------------------------------------------------------------------- */

static double seconds_of_thread(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The rest of K times the work: never less, however busy the machine is. */
static void throttles_wait(test *t)
{
    static const uint32_t flags[] = {0, DPT_DEVICE_DRIVER_COMPUTES};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const dpti_device device = {.throttle = 3, .info = {.flags = flags[i]}};
        const double began = dpti_seconds(), own = seconds_of_thread();
        dpti_device_throttle(&device, 0.02);
        CHECK(dpti_seconds() - began >= 0.04);
        if (flags[i] == 0) CHECK(seconds_of_thread() - own < 0.02); /* asleep */
    }
    const dpti_device fast = {.throttle = 1};
    dpti_device_throttle(&fast, 1e9);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"names_statuses", names_statuses},
        {"keeps_the_last_failure", keeps_the_last_failure},
        {"sorts_backends", sorts_backends},
        {"sorts_devices_into_groups", sorts_devices_into_groups},
        {"keeps_signals", keeps_signals},
        {"one_does_not_answer", one_does_not_answer},
        {"checks_descriptors", checks_descriptors},
        {"checks_parameters", checks_parameters},
        {"absent_backends_have_reasons", absent_backends_have_reasons},
        {"recognises_files", recognises_files},
        {"survives_broken_files", survives_broken_files},
        {"opens_and_closes", opens_and_closes},
        {"failures_unwind", failures_unwind},
        {"throttles_wait", throttles_wait},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
