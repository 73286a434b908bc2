/* Tests arrays: values, the order of queued work, deferred failures, scattering.  Also to be run
   under ThreadSanitizer. */
#include "base/clock.h"
#include "context/context.h"
#include "context_create.h"
#include "device/array.h"
#include "device/registry.h"
#include "harness.h"
#include "unit/fake_backend.h"

/* A context with an open set of fake devices. */
typedef struct bench {
    dpt_context *context;
    dpt_device_set *set;
    dpt_device *device; /* the first */
} bench;

static bool set_up(test *t, const char *list, bench *out)
{
    memset(&fake_control, 0, sizeof fake_control);
    *out = (bench){.context = NULL};
    if (!CHECK_OK(dpti_context_create_empty(&out->context))) return false;
    CHECK_OK(dpti_registry_add(out->context->registry, "fake", &fake_backend));
    if (!CHECK_OK(dpt_device_set_open(out->context, list, &out->set))) return false;
    out->device = dpt_device_set_get(out->set, 0);
    return true;
}

static void tear_down(test *t, bench *b)
{
    dpt_device_set_close(b->set);
    dpt_context_destroy(b->context);
    CHECK(atomic_load(&fake_control.n_open) == 0);
    CHECK(atomic_load(&fake_control.n_buffers) == 0);
    CHECK(atomic_load(&fake_control.n_streams) == 0);
    CHECK(atomic_load(&fake_control.n_ops) == 0);
    CHECK(atomic_load(&fake_control.foreign_calls) == 0);
}

static dpt_array *make(test *t, dpt_device *device, size_t size)
{
    dpt_array *array = NULL;
    CHECK_OK(dpt_array_create(device, &size, 1, &array));
    return array;
}

static void check_all(test *t, dpt_array *array, float expected)
{
    float values[64];
    const size_t size = dpt_array_size(array);
    if (!CHECK(size <= 64) || !CHECK_OK(dpt_array_get(array, values))) return;
    for (size_t i = 0; i < size; i++)
        CHECK_NEAR(values[i], expected, 0.0);
}

static void creates(test *t)
{
    bench b;
    if (!set_up(t, "fake:1", &b)) return;
    dpt_array *a = NULL;
    REQUIRE_OK(dpt_array_create(b.device, (const size_t[]){2, 3, 1, 5}, 4, &a));
    CHECK_SIZE(dpt_array_rank(a), 4);
    CHECK_SIZE(dpt_array_size(a), 30);
    CHECK_SIZE(dpt_array_shape(a)[1], 3);
    CHECK(dpt_array_device(a) == b.device);
    check_all(t, a, 0.0f);
    dpt_array *none = NULL;
    CHECK_STATUS(dpt_array_create(b.device, (const size_t[]){1}, 0, &none), DPT_E_INVALID);
    CHECK_STATUS(dpt_array_create(b.device, (const size_t[]){1, 1, 1, 1, 1}, 5, &none),
                 DPT_E_INVALID);
    CHECK_STATUS(dpt_array_create(b.device, (const size_t[]){4, 0}, 2, &none), DPT_E_INVALID);
    CHECK_STATUS(dpt_array_create(b.device, (const size_t[]){SIZE_MAX / 2, 8}, 2, &none),
                 DPT_E_INVALID);
    CHECK_STATUS(dpt_array_create(b.device, (const size_t[]){SIZE_MAX / 8 + 1}, 1, &none),
                 DPT_E_INVALID);
    CHECK(none == NULL);
    dpt_array_destroy(a);
    dpt_array_destroy(NULL);
    tear_down(t, &b);
}

static void computes(test *t)
{
    enum { N = 5 };
    bench b;
    if (!set_up(t, "fake", &b)) return;
    dpt_array *x = make(t, b.device, N), *y = make(t, b.device, N), *z = make(t, b.device, N);
    REQUIRE(x && y && z);
    float values[N] = {1, 2, 3, 4, 5};
    CHECK_OK(dpt_array_set(x, values));
    for (size_t i = 0; i < N; i++)
        values[i] = 10; /* set has made a copy */
    CHECK_OK(dpt_array_set(y, values));
    CHECK_OK(dpt_array_multiply(x, y, z));        /* 10 x */
    CHECK_OK(dpt_array_affine(z, 1.0f, 2.0f, z)); /* 10 x + 2 */
    CHECK_OK(dpt_array_affine(z, 0.5f, 0.0f, z)); /* 5 x + 1: other factors, prepared anew */
    CHECK_OK(dpt_array_add(z, x, z));             /* 6 x + 1 */
    float result[N] = {0};
    CHECK_OK(dpt_array_get(z, result));
    for (size_t i = 0; i < N; i++)
        CHECK_NEAR(result[i], 6.0 * (double)(i + 1) + 1.0, 0.0);
    dpt_array_destroy(z);
    dpt_array_destroy(y);
    dpt_array_destroy(x);
    tear_down(t, &b);
}

static void returns_at_once(test *t)
{
    bench b;
    if (!set_up(t, "fake", &b)) return;
    dpt_array *x = make(t, b.device, 4), *y = make(t, b.device, 4);
    REQUIRE(x && y);
    CHECK_OK(dpt_array_set(x, (const float[]){1, 1, 1, 1}));
    CHECK_OK(dpt_array_wait(x));
    atomic_store(&fake_control.sleep_us, 20000);
    const double start = dpti_seconds();
    for (int i = 0; i < 10; i++)
        CHECK_OK(dpt_array_add(y, x, y));
    /* The work takes 0.2 s.  Posting it takes microseconds; a busy machine gets a lot of room. */
    const double posted = dpti_seconds() - start;
    CHECK(posted < 0.1);
    CHECK_OK(dpt_device_set_wait(b.set));
    CHECK(dpti_seconds() - start >= 0.19);
    check_all(t, y, 10.0f);
    atomic_store(&fake_control.sleep_us, 0);
    dpt_array_destroy(y);
    dpt_array_destroy(x);
    tear_down(t, &b);
}

static void refuses_what_does_not_fit(test *t)
{
    bench b;
    if (!set_up(t, "fake:0,fake:1", &b)) return;
    dpt_array *x = make(t, b.device, 4), *longer = make(t, b.device, 5),
              *other = make(t, dpt_device_set_get(b.set, 1), 4);
    REQUIRE(x && longer && other);
    CHECK_STATUS(dpt_array_multiply(x, other, x), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(b.context), "two devices");
    CHECK_STATUS(dpt_array_add(x, x, longer), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(b.context), "must be equal");
    CHECK_STATUS(dpt_array_affine(longer, 1, 1, x), DPT_E_INVALID);
    CHECK_STATUS(dpt_all_reduce((dpt_array *[]){NULL, x}, 2), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(b.context), "array 0 is NULL");
    CHECK_STATUS(dpt_all_reduce((dpt_array *[]){x, NULL}, 2), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(b.context), "array 1 is NULL");
    CHECK_STATUS(dpt_all_reduce((dpt_array *[]){NULL, NULL}, 2), DPT_E_INVALID);
    dpt_array_destroy(other);
    dpt_array_destroy(longer);
    dpt_array_destroy(x);
    tear_down(t, &b);
}

static void failures_come_back_from_waits(test *t)
{
    bench b;
    if (!set_up(t, "fake", &b)) return;
    dpt_array *x = make(t, b.device, 4), *y = make(t, b.device, 4), *z = make(t, b.device, 4);
    REQUIRE(x && y && z);
    float values[4];
    atomic_store(&fake_control.fail_run, 1);
    CHECK_OK(dpt_array_multiply(x, x, y)); /* fails later */
    CHECK_OK(dpt_array_add(x, y, z));      /* computed from what failed */
    CHECK_STATUS(dpt_array_wait(y), DPT_E_DEVICE);
    CHECK_TEXT(dpt_error_message(b.context), "device fake: planted failure");
    CHECK_STATUS(dpt_array_get(z, values), DPT_E_DEVICE);
    CHECK_STATUS(dpt_array_get(y, values), DPT_E_DEVICE); /* and stays */
    CHECK_OK(dpt_array_wait(x));                          /* x has nothing to do with it */
    CHECK_STATUS(dpt_device_set_wait(b.set), DPT_E_DEVICE);
    CHECK_CONTAINS(dpt_error_message(b.context), "planted failure");
    CHECK_OK(dpt_device_set_wait(b.set)); /* once */
    /* New contents make it good again. */
    CHECK_OK(dpt_array_set(y, (const float[]){2, 2, 2, 2}));
    check_all(t, y, 2.0f);
    CHECK_STATUS(dpt_array_wait(z), DPT_E_DEVICE);
    CHECK_OK(dpt_array_set(z, (const float[]){0, 0, 0, 0}));
    CHECK_OK(dpt_array_multiply(y, y, z));
    check_all(t, z, 4.0f);
    dpt_array_destroy(z);
    dpt_array_destroy(y);
    dpt_array_destroy(x);
    tear_down(t, &b);
}

static void a_collective_sets_what_it_writes(test *t)
{
    bench b;
    if (!set_up(t, "fake:0,fake:1", &b)) return;
    dpt_device *second = dpt_device_set_get(b.set, 1);
    dpt_array *arrays[] = {make(t, b.device, 4), make(t, second, 4)};
    dpt_array *parts[] = {make(t, b.device, 3), make(t, second, 1)};
    dpt_array *invalid = arrays[1], *part = parts[1];
    REQUIRE(arrays[0] && invalid && parts[0] && part);
    CHECK_OK(dpt_array_set(arrays[0], (const float[]){1, 1, 1, 1}));
    CHECK_OK(dpt_array_set(parts[0], (const float[]){2, 2, 2}));
    CHECK_OK(dpt_array_set(part, (const float[]){2}));
    atomic_store(&fake_control.fail_run, 1);
    CHECK_OK(dpt_array_multiply(invalid, invalid, invalid));
    CHECK_STATUS(dpt_array_wait(invalid), DPT_E_DEVICE);
    /* What it reads has to be valid. */
    CHECK_STATUS(dpt_broadcast(arrays, 2, 1), DPT_E_DEVICE);
    CHECK_TEXT(dpt_error_message(b.context), "device fake:1: planted failure");
    CHECK_STATUS(dpt_reduce_scatter(arrays, parts, 2), DPT_E_DEVICE);
    CHECK_STATUS(dpt_array_wait(invalid), DPT_E_DEVICE);
    CHECK_OK(dpt_broadcast(arrays, 2, 0));
    check_all(t, invalid, 1.0f);
    atomic_store(&fake_control.fail_run, 1);
    CHECK_OK(dpt_array_multiply(invalid, invalid, invalid));
    CHECK_OK(dpt_all_gather(parts, arrays, 2));
    check_all(t, invalid, 2.0f);
    atomic_store(&fake_control.fail_run, 1);
    CHECK_OK(dpt_array_multiply(part, part, part));
    CHECK_STATUS(dpt_all_gather(parts, arrays, 2), DPT_E_DEVICE);
    CHECK_OK(dpt_broadcast(arrays, 2, 0));
    CHECK_OK(dpt_reduce_scatter(arrays, parts, 2));
    check_all(t, part, 4.0f);
    CHECK_STATUS(dpt_device_set_wait(b.set), DPT_E_DEVICE); /* it has not been told there */
    for (size_t i = 0; i < 2; i++) {
        dpt_array_destroy(parts[i]);
        dpt_array_destroy(arrays[i]);
    }
    tear_down(t, &b);
}

static void a_lost_device_is_left_alone(test *t)
{
    bench b;
    if (!set_up(t, "fake:0,fake:1", &b)) return;
    dpt_array *x = make(t, b.device, 4), *other = make(t, dpt_device_set_get(b.set, 1), 4);
    REQUIRE(x && other);
    atomic_store(&fake_control.lose, 1);
    atomic_store(&fake_control.fail_run, 1);
    CHECK_OK(dpt_array_multiply(x, x, x));
    CHECK_STATUS(dpt_array_wait(x), DPT_E_DEVICE_LOST);
    const int n_runs = atomic_load(&fake_control.n_runs);
    CHECK_OK(dpt_array_set(x, (const float[]){1, 2, 3, 4}));
    CHECK_STATUS(dpt_array_wait(x), DPT_E_DEVICE_LOST);
    CHECK_TEXT(dpt_error_message(b.context), "device fake:0: planted failure");
    CHECK_OK(dpt_array_multiply(x, x, x));
    CHECK_STATUS(dpt_device_set_wait(b.set), DPT_E_DEVICE_LOST);
    CHECK(atomic_load(&fake_control.n_runs) == n_runs);
    dpt_array *none = NULL;
    CHECK_STATUS(dpt_array_create(b.device, (const size_t[]){4}, 1, &none), DPT_E_DEVICE_LOST);
    /* The other device goes on. */
    CHECK_OK(dpt_array_affine(other, 0, 3, other));
    check_all(t, other, 3.0f);
    dpt_array_destroy(other);
    dpt_array_destroy(x);
    dpt_device_set_close(b.set);
    dpt_context_destroy(b.context);
    /* Its memory, stream and operators are abandoned; only close was called. */
    CHECK(atomic_load(&fake_control.n_open) == 0);
    CHECK(atomic_load(&fake_control.n_buffers) == 1);
    CHECK(atomic_load(&fake_control.n_streams) == 1);
    CHECK(atomic_load(&fake_control.n_ops) == 1);
    fake_delete_all();
}

static void obeys_the_memory_limit(test *t)
{
    bench b;
    if (!set_up(t, "fake:memory=1K", &b)) return;
    dpt_array *x = make(t, b.device, 200), *y = NULL;
    REQUIRE(x);
    CHECK_STATUS(dpt_array_create(b.device, (const size_t[]){57}, 1, &y), DPT_E_NO_MEMORY);
    CHECK_CONTAINS(dpt_error_message(b.context), "228 bytes asked with 800 in use");
    CHECK_CONTAINS(dpt_error_message(b.context), "to 1024");
    CHECK(y == NULL);
    y = make(t, b.device, 56);
    CHECK(y != NULL);
    dpt_array_destroy(y);
    dpt_array_destroy(x);
    y = make(t, b.device, 256);
    CHECK(y != NULL);
    dpt_array_destroy(y);
    tear_down(t, &b);
}

static void scatters(test *t)
{
    bench b;
    if (!set_up(t, "fake:0,fake:1,fake:0", &b)) return;
    float matrix[20];
    for (size_t i = 0; i < 20; i++)
        matrix[i] = (float)i;
    dpt_array *parts[3] = {NULL};
    REQUIRE_OK(dpt_scatter(b.set, matrix, 4, 5, (const size_t[]){1, 0, 3}, parts));
    CHECK(parts[1] == NULL);
    CHECK_SIZE(dpt_array_shape(parts[2])[0], 3);
    CHECK_SIZE(dpt_array_shape(parts[2])[1], 5);
    CHECK(dpt_array_device(parts[2]) == dpt_device_set_get(b.set, 2));
    float values[15];
    CHECK_OK(dpt_array_get(parts[2], values));
    for (size_t i = 0; i < 15; i++)
        CHECK_NEAR(values[i], (double)(5 + i), 0.0);
    for (size_t i = 0; i < 3; i++)
        dpt_array_destroy(parts[i]);

    dpt_array *none[3] = {NULL};
    CHECK_STATUS(dpt_scatter(b.set, matrix, 4, 5, (const size_t[]){1, 1, 1}, none), DPT_E_INVALID);
    CHECK_STATUS(dpt_scatter(b.set, matrix, 4, 5, (const size_t[]){4, SIZE_MAX, 1}, none),
                 DPT_E_INVALID);
    CHECK_STATUS(dpt_scatter(b.set, matrix, 4, 0, (const size_t[]){4, 0, 0}, none), DPT_E_INVALID);
    CHECK_STATUS(dpt_scatter(b.set, matrix, SIZE_MAX, 5, (const size_t[]){SIZE_MAX, 0, 0}, none),
                 DPT_E_INVALID);
    CHECK(none[0] == NULL && none[1] == NULL && none[2] == NULL);
    tear_down(t, &b);
}

static void scatter_unwinds(test *t)
{
    bench b;
    if (!set_up(t, "fake:0,fake:1:memory=8", &b)) return;
    const float matrix[8] = {0};
    dpt_array *none[2] = {NULL};
    CHECK_STATUS(dpt_scatter(b.set, matrix, 4, 2, (const size_t[]){2, 2}, none), DPT_E_NO_MEMORY);
    CHECK_CONTAINS(dpt_error_message(b.context), "device fake:1:memory=8: 16 bytes asked");
    CHECK(none[0] == NULL && atomic_load(&fake_control.n_buffers) == 0);
    tear_down(t, &b);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"creates", creates},
        {"computes", computes},
        {"returns_at_once", returns_at_once},
        {"refuses_what_does_not_fit", refuses_what_does_not_fit},
        {"failures_come_back_from_waits", failures_come_back_from_waits},
        {"a_collective_sets_what_it_writes", a_collective_sets_what_it_writes},
        {"a_lost_device_is_left_alone", a_lost_device_is_left_alone},
        {"obeys_the_memory_limit", obeys_the_memory_limit},
        {"scatters", scatters},
        {"scatter_unwinds", scatter_unwinds},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
