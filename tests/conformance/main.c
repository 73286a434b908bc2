/* conformance NAME [options]: the suite on every device of a backend.

       --complete       the backend must support every description
       --device LIST    one device, by its string, in place of all of them
       --together       all devices (of LIST, if there is one) at the same time, a thread for each,
                        in place of one after the other
       --deal N         each device is opened N times, and the cases are dealt out among those, all
                        of which run at the same time: a card has room for many small calls, and
                        what prepares and compares them are threads of the host
       --self-test      every operator's case must fail, on each of the device strings given after
                        it: they plant mistakes
       --case PART      only cases whose name contains PART; with several, one of them
       --without PART   no case whose name contains PART
       --work N         multiply-adds, or elements, that a call may take: less for what is
                        interpreted
       --several N      the same limit for calls of several samples only: every description still
                        runs with one sample.  Without it 400000, which the reference does in a
                        moment
       --turns          descriptions take turns: one runs with 3 and 255 samples, another
                        with 17 and 257.  Without it each runs with all of these; all run with 0
                        and 1
       --deterministic  operators are prepared to have the same bits on all devices.  Samples must
                        then have the same bits alone and among others, and sums over samples must
                        not depend on max_samples.  Convolutions and linear layers are compared
                        with the chains that define them
       --bits FILE      writes a line with a hash for each output of each call
       --bits-alone     and compares none with the reference, which takes half of the time: the
                        lines are compared with those of a run that does

   Skips (77) if the backend has no device here, unless $DPTRAIN_TEST_REQUIRE, names separated by
   commas, has it. */
#include "conformance.h"
#include "device/driver.h"
#include "device/set.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CASES = 64, MAX_STRINGS = 16, NAME_BYTES = 256, LIST_BYTES = 1024 };

typedef struct options {
    const char *backend, *device;
    size_t n_parts; /* 0: all cases */
    char *parts[MAX_CASES];
    size_t n_unwanted;
    char *unwanted[MAX_CASES];
    bool complete, together, turns, deterministic, bits_alone;
    FILE *bits;
    size_t n_hands; /* of each device, among which the cases are dealt out */
    size_t max_work, max_single;
    size_t n_planted;
    const char *planted[MAX_STRINGS];
} options;

/* ---- Cases in the driver's thread ------------------------------------------------------------ */

typedef struct body_call {
    test *t;
    void (*body)(test *t);
} body_call;

static void run_body(dpti_device *device, void *argument)
{
    const body_call *call = argument;
    (void)device;
    call->body(call->t);
}

/* The case of a name, in front of which the device may stand. */
static const suite_case *case_named(const char *name)
{
    const char *colon = strstr(name, ": ");
    if (colon) name = colon + 2;
    for (size_t i = 0; i < n_operator_cases; i++) {
        if (strcmp(operator_cases[i].name, name) == 0) return &operator_cases[i];
    }
    for (size_t i = 0; i < n_device_cases; i++) {
        if (strcmp(device_cases[i].name, name) == 0) return &device_cases[i];
    }
    return NULL;
}

static void run_in_driver(test *t)
{
    suite *s = suite_of(t);
    const size_t compared = s->n_compared, unsupported = s->n_unsupported;
    body_call call = {.t = t, .body = case_named(t->name)->body};
    dpti_driver_call(s->device, run_body, &call);
    /* An operator that supports nothing at all was not tested. */
    if (s->n_compared == compared && s->n_unsupported > unsupported && t->n_failures == 0)
        test_skip(t, "none of %zu descriptions is supported", s->n_unsupported - unsupported);
}

/* The opposite: the device plants a mistake that the operator's case must notice. */
static void must_fail(test *t)
{
    test planted = {.user = t->user, .name = t->name, .quiet = true};
    body_call call = {.t = &planted, .body = case_named(t->name)->body};
    dpti_driver_call(suite_of(t)->device, run_body, &call);
    if (!CHECK(planted.n_failures > 0)) FAIL("the planted mistake went unnoticed");
}

static bool is_wanted(const options *o, const suite_case *c)
{
    for (size_t i = 0; i < o->n_unwanted; i++)
        if (strstr(c->name, o->unwanted[i])) return false;
    for (size_t i = 0; i < o->n_parts; i++)
        if (strstr(c->name, o->parts[i])) return true;
    return o->n_parts == 0;
}

/* Those that are wanted; how many. */
static size_t list_cases(const options *o, bool operators_only, const suite_case *out[MAX_CASES])
{
    const size_t n_all = n_operator_cases + (operators_only ? 0 : n_device_cases);
    size_t n = 0;
    for (size_t i = 0; i < n_all && n < MAX_CASES; i++) {
        const suite_case *c =
            i < n_operator_cases ? &operator_cases[i] : &device_cases[i - n_operator_cases];
        if (is_wanted(o, c)) out[n++] = c;
    }
    return n;
}

/* The cases of one hand, which may be none. */
static int run_cases(suite *s, bool operators_only, void (*run)(test *), const options *o,
                     size_t hand)
{
    const suite_case *wanted[MAX_CASES];
    test_case cases[MAX_CASES];
    char names[MAX_CASES][NAME_BYTES];
    const char *prefix = s->prefix ? s->prefix : "", *colon = s->prefix ? ": " : "";
    const size_t n_wanted = list_cases(o, operators_only, wanted);
    size_t n = 0;
    for (size_t i = hand; i < n_wanted; i += o->n_hands) {
        snprintf(names[n], sizeof names[n], "%s%s%s", prefix, colon, wanted[i]->name);
        cases[n] = (test_case){.name = names[n], .run = run};
        n++;
    }
    if (n == 0 && n_wanted > 0) return TEST_SKIP_CODE;
    const int result = test_run(0, NULL, cases, n, s);
    printf("%s%s%zu calls %s, %zu descriptions not supported", prefix, colon, s->n_compared,
           s->bits_alone ? "whose bits were written" : "compared with the reference",
           s->n_unsupported);
    for (size_t i = 0; i < MAX_WAYS && s->ways[i].n > 0; i++)
        printf("%s %s %zu", i > 0 ? "," : "; by", s->ways[i].name, s->ways[i].n);
    puts("");
    return result;
}

/* ---- Devices --------------------------------------------------------------------------------- */

/* The suite on one open device, in a thread of its own. */
typedef struct device_run {
    const options *o;
    suite suite;
    bool planted;
    size_t hand;
    pthread_t thread;
    int result;
} device_run;

static void *run_on(void *argument)
{
    device_run *r = argument;
    r->result =
        run_cases(&r->suite, r->planted, r->planted ? must_fail : run_in_driver, r->o, r->hand);
    return NULL;
}

/* ---- Ways that are asked for ----------------------------------------------------------------- */

/* Of a device string: "any" of "cuda:0:algorithm=any:precision=tf32"; empty if there is none. */
static void read_algorithm(const char *id, char out[NAME_BYTES])
{
    static const char key[] = "algorithm=";
    const char *value = strstr(id, key);
    const char *from = value ? value + strlen(key) : "";
    snprintf(out, NAME_BYTES, "%.*s", (int)strcspn(from, ":"), from);
}

static bool same_device(const device_run *a, const device_run *b)
{
    return strcmp(a->suite.device->id, b->suite.device->id) == 0;
}

/* Ways of products and convolutions in one hand that an earlier one has not taken. */
static size_t count_new_ways(const device_run *runs, size_t hand)
{
    size_t n = 0;
    for (size_t k = 0; k < MAX_WAYS && runs[hand].suite.ways[k].n > 0; k++) {
        const suite_way *way = &runs[hand].suite.ways[k];
        bool is_new = way->of_product;
        for (size_t i = 0; i < hand && is_new; i++)
            for (size_t j = 0; j < MAX_WAYS && same_device(&runs[i], &runs[hand]); j++)
                if (strcmp(runs[i].suite.ways[j].name, way->name) == 0) is_new = false;
        n += is_new;
    }
    return n;
}

/* Where a way does not apply others stand in for it: that any hand of the device has taken it, and
   with "any" more than one if there were products and convolutions. */
static bool took_what_was_asked(const device_run *runs, size_t n, const device_run *of)
{
    const char *algorithm = of->suite.algorithm;
    size_t n_named = 0, n_ways = 0;
    if (!*algorithm || of->planted) return true;
    const bool any = strcmp(algorithm, "any") == 0;
    for (size_t i = 0; i < n; i++) {
        if (!same_device(&runs[i], of)) continue;
        n_named += runs[i].suite.n_named;
        n_ways += count_new_ways(runs, i);
    }
    if (any ? n_ways != 1 : n_named > 0) return true;
    printf("FAIL: %s: %s %s\n", of->suite.device->id,
           any ? "all was done in one way, with" : "nothing was done by", algorithm);
    return false;
}

/* A failure outweighs success, and success a skip. */
static int worse(int a, int b)
{
    if (a == 1 || b == 1) return 1;
    return a == 0 || b == 0 ? 0 : TEST_SKIP_CODE;
}

static device_run begin(const options *o, dpti_device *device, bool planted)
{
    device_run r = {.o = o,
                    .suite = {.device = device,
                              .complete = o->complete,
                              .max_failures = planted ? 1 : 10,
                              .max_work = o->max_work,
                              .max_single = o->max_single,
                              .turns = o->turns,
                              .deterministic = o->deterministic,
                              .bits = o->bits,
                              .bits_alone = o->bits_alone,
                              .prefix = o->together || o->n_hands > 1 ? device->id : NULL},
                    .planted = planted,
                    .result = 1};
    read_algorithm(device->id, r.suite.algorithm);
    printf("== %s: %s, %s\n", device->id, device->info.name, device->info.detail);
    return r;
}

/* All devices of the set at the same time. */
static int on_each(const options *o, dpt_device_set *devices)
{
    device_run runs[MAX_STRINGS];
    size_t n_started = 0;
    int result = TEST_SKIP_CODE;
    if (devices->n_devices > MAX_STRINGS) {
        puts("FAIL: too many devices");
        return 1;
    }
    for (size_t i = 0; i < devices->n_devices; i++) {
        runs[i] = begin(o, devices->devices[i], false);
        for (size_t k = 0; k < i; k++)
            runs[i].hand += same_device(&runs[k], &runs[i]);
        runs[i].hand %= o->n_hands;
    }
    while (n_started < devices->n_devices &&
           pthread_create(&runs[n_started].thread, NULL, run_on, &runs[n_started]) == 0)
        n_started++;
    for (size_t i = 0; i < n_started; i++) {
        pthread_join(runs[i].thread, NULL);
        result = worse(result, runs[i].result);
    }
    for (size_t i = 0; i < n_started; i++)
        if (!took_what_was_asked(runs, n_started, &runs[i])) result = 1;
    return n_started < devices->n_devices ? 1 : result;
}

/* Every device of the list as often as there are hands. */
static void deal(const char *list, size_t n_hands, char out[LIST_BYTES])
{
    size_t length = 0;
    out[0] = '\0';
    for (const char *device = list; *device;) {
        const size_t n = strcspn(device, ",");
        for (size_t i = 0; i < n_hands && length < LIST_BYTES; i++) {
            const int printed = snprintf(out + length, LIST_BYTES - length, "%s%.*s",
                                         length ? "," : "", (int)n, device);
            length += (size_t)printed;
        }
        device += device[n] ? n + 1 : n;
    }
}

static int on_list(dpt_context *context, const options *o, const char *list, bool planted)
{
    dpt_device_set *devices = NULL;
    int result = 1;
    char dealt[LIST_BYTES];
    deal(list, o->n_hands, dealt);
    const dpt_status status = dpt_device_set_open(context, dealt, &devices);
    if (status == DPT_E_UNSUPPORTED && o->device) {
        printf("this device cannot be opened so: %s\n", dpt_error_message(context));
        result = TEST_SKIP_CODE; /* a card without tensor cores */
    } else if (status != DPT_OK) {
        printf("FAIL %s: %s\n", list, dpt_error_message(context));
    } else if (o->together || o->n_hands > 1) {
        result = on_each(o, devices);
    } else {
        device_run r = begin(o, devices->devices[0], planted);
        (void)run_on(&r);
        result = took_what_was_asked(&r, 1, &r) ? r.result : 1;
    }
    dpt_device_set_close(devices);
    return result;
}

static int on_all(dpt_context *context, const options *o, size_t n_devices)
{
    char list[LIST_BYTES] = "";
    int result = TEST_SKIP_CODE;
    for (size_t i = 0; i < n_devices; i++) {
        char device[64];
        snprintf(device, sizeof device, "%s:%zu", o->backend, i);
        if (!o->together) result = worse(result, on_list(context, o, device, false));
        const size_t length = strlen(list);
        snprintf(list + length, sizeof list - length, "%s%s", i ? "," : "", device);
    }
    return o->together ? on_list(context, o, list, false) : result;
}

static int missing(const options *o, const char *reason)
{
    const char *required = getenv("DPTRAIN_TEST_REQUIRE");
    printf("no device of %s: %s\n", o->backend, reason);
    if (!test_list_has(required ? required : "", o->backend)) return TEST_SKIP_CODE;
    puts("FAIL: DPTRAIN_TEST_REQUIRE asks for it");
    return 1;
}

static int run_suite(dpt_context *context, const options *o)
{
    size_t backend = 0;
    while (backend < dpt_backend_count(context) &&
           strcmp(dpt_backend_name(context, backend), o->backend) != 0)
        backend++;
    if (backend == dpt_backend_count(context)) return missing(o, "there is no such plug-in");
    const size_t n_devices = dpt_backend_device_count(context, backend);
    const char *reason = dpt_backend_reason(context, backend);
    if (n_devices == 0) return missing(o, reason ? reason : "none found");
    if (o->n_planted == 0 && o->device) return on_list(context, o, o->device, false);
    if (o->n_planted == 0) return on_all(context, o, n_devices);
    int result = 0;
    for (size_t i = 0; i < o->n_planted; i++)
        result = worse(result, on_list(context, o, o->planted[i], true));
    return result;
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static bool parse(int argc, char **argv, options *o)
{
    bool self_test = false;
    for (int i = 1; i < argc; i++) {
        const bool more = i + 1 < argc;
        if (strcmp(argv[i], "--complete") == 0) {
            o->complete = true;
        } else if (strcmp(argv[i], "--together") == 0) {
            o->together = true;
        } else if (strcmp(argv[i], "--turns") == 0) {
            o->turns = true;
        } else if (strcmp(argv[i], "--deterministic") == 0) {
            o->deterministic = true;
        } else if (strcmp(argv[i], "--bits") == 0 && more) {
            o->bits = fopen(argv[++i], "w");
            if (!o->bits) return false;
        } else if (strcmp(argv[i], "--bits-alone") == 0) {
            o->bits_alone = true;
        } else if (strcmp(argv[i], "--device") == 0 && more) {
            o->device = argv[++i];
        } else if (strcmp(argv[i], "--case") == 0 && more && o->n_parts < MAX_CASES) {
            o->parts[o->n_parts++] = argv[++i];
        } else if (strcmp(argv[i], "--without") == 0 && more && o->n_unwanted < MAX_CASES) {
            o->unwanted[o->n_unwanted++] = argv[++i];
        } else if (strcmp(argv[i], "--work") == 0 && more) {
            o->max_work = o->max_single = strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--several") == 0 && more) {
            o->max_work = strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--deal") == 0 && more) {
            o->n_hands = strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--self-test") == 0) {
            self_test = true;
        } else if (self_test && o->n_planted < MAX_STRINGS) {
            o->planted[o->n_planted++] = argv[i];
        } else if (!o->backend && argv[i][0] != '-') {
            o->backend = argv[i];
        } else {
            return false;
        }
    }
    if (o->bits_alone && !o->bits) return false;
    return o->backend && self_test == (o->n_planted > 0) && !(self_test && o->together) &&
           o->n_hands > 0 && (o->n_hands == 1 || !self_test);
}

int main(int argc, char **argv)
{
    options o = {.n_hands = 1, .max_work = 400000, .max_single = SIZE_MAX};
    dpt_context *context = NULL;
    if (!parse(argc, argv, &o)) {
        fputs("usage: conformance NAME [--complete] [--device LIST] [--together] [--case PART]... "
              "[--without PART]... [--deal N] [--work N] [--several N] [--turns] "
              "[--deterministic] [--bits FILE [--bits-alone]] [--self-test "
              "STRING...]\n",
              stderr);
        return 2;
    }
    if (dpt_context_create(&context) != DPT_OK) {
        puts("FAIL: no context");
        return 1;
    }
    int result = run_suite(context, &o);
    if (o.bits && fclose(o.bits) != 0) result = 1;
    dpt_context_destroy(context);
    return result;
}
