/* Tests the comparison of two run logs: the first difference, what is not compared, and logs that
   cannot be compared. */
#include "harness.h"
#include "io/compare.h"

#include <math.h>
#include <string.h>

#define RUN                                                                                        \
    "{\"event\":\"run\",\"batch_size\":8,\"seed\":3,\"settings\":{\"lr\":\"0.1\",\"loss\":\"x\"}}" \
    "\n"
#define OTHER_RUN                                                                                  \
    "{\"event\":\"run\",\"batch_size\":8,\"seed\":4,\"settings\":{\"lr\":\"0.2\",\"more\":\"x\"}}" \
    "\n"
#define STEP(n, rest)  "{\"event\":\"step\",\"step\":" n "," rest "}\n"
#define LOSS(n, loss)  STEP(n, "\"loss\":" loss ",\"hits\":4,\"shards\":[8]")
#define SAME_EPOCH     "\"train_loss\":2.25,\"weights_sha256\":\"ab\""
#define ALGORITHMS     "{\"event\":\"algorithms\",\"device\":0,\"operations\":[]}\n"
#define LOST           "{\"event\":\"device_lost\",\"step\":3}\n"
#define EPOCH(n, rest) "{\"event\":\"epoch\",\"epoch\":" n "," rest "}\n"

static dpt_status compare(const char *a, const char *b, dpt_log_comparison *out, dpt_error *error)
{
    const dpti_file_bytes logs[2] = {{"A", (const uint8_t *)a, strlen(a)},
                                     {"B", (const uint8_t *)b, strlen(b)}};
    return dpti_compare_logs(logs, out, error);
}

static const char whole[] =
    RUN LOSS("1", "2.5") LOSS("2", "2.0") EPOCH("1", SAME_EPOCH ",\"seconds\":1.5")
        LOSS("3", "null") "{\"event\":\"done\",\"seconds\":4}\n";

static void equal_logs_have_no_difference(test *t)
{
    /* Times, shards, devices and events of devices are those of the run, and not of the training.
     */
    static const char other[] = OTHER_RUN ALGORITHMS LOSS("1", "2.5")
        STEP("2", "\"loss\":2.0,\"hits\":4,\"shards\":[4,4],\"seconds\":9")
            EPOCH("1", SAME_EPOCH ",\"seconds\":99") LOST LOSS("3", "null");
    dpt_log_comparison found = {0};
    dpt_error error = {0};
    REQUIRE_OK(compare(whole, whole, &found, &error));
    CHECK(!found.differs && found.settings[0] == '\0');
    REQUIRE_OK(compare(whole, other, &found, &error));
    CHECK(!found.differs);
    CHECK_SIZE(found.common_steps, 3);
    CHECK_SIZE(found.common_epochs, 1);
    CHECK_SIZE(found.common_weights, 1);
    CHECK(found.largest_loss_difference == 0);
    CHECK(strcmp(found.settings, "lr, seed") == 0);
}

static void the_first_difference_is_named(test *t)
{
    static const struct {
        const char *other, *key, *a, *b;
        size_t step, epoch;
    } cases[] = {
        {RUN LOSS("1", "2.5") LOSS("2", "2.00000001"), "loss", "2.0", "2.00000001", 2, 0},
        {RUN LOSS("1", "null"), "loss", "2.5", "null", 1, 0},
        {RUN STEP("1", "\"loss\":2.5,\"hits\":5") LOSS("2", "7"), "hits", "4", "5", 1, 0},
        {RUN LOSS("1", "2.5") LOSS("2", "2.0") EPOCH("1", "\"weights_sha256\":\"ac\""),
         "weights_sha256", "\"ab\"", "\"ac\"", 2, 1},
        {RUN LOSS("2", "2.0") EPOCH("1", "\"train_loss\":2.5") LOSS("3", "1.0"), "train_loss",
         "2.25", "2.5", 2, 1},
        {RUN LOSS("3", "1.5"), "loss", "null", "1.5", 3, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpt_log_comparison found = {0};
        dpt_error error = {0};
        REQUIRE_OK(compare(whole, cases[i].other, &found, &error));
        if (!CHECK(found.differs)) FAIL("case %zu", i);
        CHECK_SIZE(found.step, cases[i].step);
        CHECK_SIZE(found.epoch, cases[i].epoch);
        CHECK(strcmp(found.key, cases[i].key) == 0);
        CHECK(strcmp(found.values[0], cases[i].a) == 0);
        CHECK(strcmp(found.values[1], cases[i].b) == 0);
    }
}

static void the_largest_difference_of_losses_is_found(test *t)
{
    dpt_log_comparison found = {0};
    dpt_error error = {0};
    REQUIRE_OK(
        compare(whole, RUN LOSS("1", "2.4") LOSS("2", "1.0") LOSS("3", "5"), &found, &error));
    CHECK_SIZE(found.step, 1);
    CHECK_NEAR(found.largest_loss_difference, 0.5, 1e-12);
    CHECK_SIZE(found.largest_loss_step, 2);
    REQUIRE_OK(compare(whole, RUN LOSS("3", "5"), &found, &error));
    CHECK(isnan(found.largest_loss_difference));
}

/* One run may have ended earlier, or its log may begin with a later step. */
static void what_only_one_log_has_is_skipped(test *t)
{
    dpt_log_comparison found = {0};
    dpt_error error = {0};
    REQUIRE_OK(compare(whole, RUN LOSS("2", "2.0") "{\"event\":\"st", &found, &error));
    CHECK(!found.differs);
    CHECK_SIZE(found.steps[0], 3);
    CHECK_SIZE(found.steps[1], 1);
    CHECK_SIZE(found.common_steps, 1);
    CHECK_SIZE(found.epochs[0], 1);
    CHECK_SIZE(found.common_epochs, 0);
}

static void other_files_are_refused(test *t)
{
    static const struct {
        const char *log, *reason;
        dpt_status status;
    } cases[] = {
        {"", "B: no run event", DPT_E_FORMAT},
        {"hello\n", "B:1: the line is no JSON", DPT_E_FORMAT},
        {RUN "{\"step\":1}\n", "B:2: no JSON object with an event", DPT_E_FORMAT},
        {RUN "[1]\n", "B:2: no JSON object with an event", DPT_E_FORMAT},
        {RUN STEP("0", "\"loss\":1"), "B:2: a step without a number", DPT_E_FORMAT},
        {RUN LOSS("2", "1") LOSS("2", "1"), "B:3: a step without a number, or not in order",
         DPT_E_FORMAT},
        {RUN "{\"event\":\"epoch\"}\n", "B:2: an epoch without a number", DPT_E_FORMAT},
        {RUN LOSS("4", "1"), "no step is in A and in B", DPT_E_INVALID},
        {RUN, "no step is in A and in B", DPT_E_INVALID},
        {LOSS("1", "1"), "B: no run event", DPT_E_FORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpt_log_comparison found = {.step = 77};
        dpt_error error = {0};
        CHECK_STATUS(compare(whole, cases[i].log, &found, &error), cases[i].status);
        CHECK_CONTAINS(error.message, cases[i].reason);
        CHECK_SIZE(found.step, 77);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"equal_logs_have_no_difference", equal_logs_have_no_difference},
        {"the_first_difference_is_named", the_first_difference_is_named},
        {"the_largest_difference_of_losses_is_found", the_largest_difference_of_losses_is_found},
        {"what_only_one_log_has_is_skipped", what_only_one_log_has_is_skipped},
        {"other_files_are_refused", other_files_are_refused},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
