/* Tests the number of processes that launchers tell in the environment. */
#include "base/text.h"
#include "collective/launch.h"
#include "collective/processes.h"
#include "dpt_error.h"
#include "dptrain.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                        "MV2_COMM_WORLD_SIZE",  "PMIX_RANK",
                                        "SLURM_STEP_ID",        "SLURM_STEP_NUM_TASKS",
                                        "SLURM_NTASKS",         "DPTRAIN_TRANSPORT",
                                        "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                        "MV2_COMM_WORLD_RANK",  "DPTRAIN_ADDRESS",
                                        "DPTRAIN_PROCESSES",    "DPTRAIN_RANK"};

/* The environment of "NAME=VALUE NAME=VALUE ...", and what is said of it. */
static dpt_status launched(const char *environment, size_t *n, const char **which, dpt_error *error)
{
    char *text = dpti_strdup(environment), *rest = NULL;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        (void)unsetenv(variables[i]);
    for (char *word = text ? strtok_r(text, " ", &rest) : NULL; word;
         word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        *value++ = '\0';
        (void)setenv(word, value, 1);
    }
    free(text);
    return dpti_launched(n, which, error);
}

static void check_count(test *t, const char *environment, size_t expected, const char *variable)
{
    const char *which = "?";
    dpt_error error = {.status = DPT_OK};
    size_t n = 0;
    CHECK_OK(launched(environment, &n, &which, &error));
    CHECK_SIZE(n, expected);
    CHECK_TEXT(which ? which : "none", variable);
    CHECK_SIZE(dpt_processes_launched(), expected);
}

static void of_launchers(test *t)
{
    check_count(t, "", 1, "none");
    check_count(t, "OMPI_COMM_WORLD_SIZE=3", 3, "OMPI_COMM_WORLD_SIZE");
    check_count(t, "PMI_SIZE=1", 1, "PMI_SIZE");
    check_count(t, "MV2_COMM_WORLD_SIZE=2", 2, "MV2_COMM_WORLD_SIZE");
}

static void of_slurm_with_pmix(test *t)
{
    static const char step[] = "PMIX_RANK=1 SLURM_STEP_ID=0 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=4";
    check_count(t, step, 4, "SLURM_STEP_NUM_TASKS");
    check_count(t, "PMIX_RANK=1 SLURM_STEP_ID=0 SLURM_NTASKS=8", 8, "SLURM_NTASKS");
    check_count(t, "PMIX_RANK=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=x", 1, "none");
    check_count(t, "PMIX_RANK=0", 1, "none");
    /* A batch script, and what it starts without srun. */
    check_count(t, "SLURM_STEP_ID=0 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=4", 1, "none");
    check_count(t, "PMIX_RANK=0 SLURM_NTASKS=8", 1, "none");
    check_count(t, "OMPI_COMM_WORLD_SIZE=2 PMIX_RANK=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4", 2,
                "OMPI_COMM_WORLD_SIZE");
}

/* SIZE_MAX: the rank is not known. */
static void check_rank(test *t, const char *environment, size_t expected)
{
    const char *which;
    dpt_error error = {.status = DPT_OK};
    size_t n, rank = 77;
    (void)launched(environment, &n, &which, &error);
    const bool known = dpti_launched_rank(&rank);
    CHECK_SIZE(known ? rank : SIZE_MAX, expected);
}

static void ranks(test *t)
{
    check_rank(t, "", 0);
    check_rank(t, "OMPI_COMM_WORLD_RANK=1", 0); /* of a job that this is no process of */
    check_rank(t, "OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=2 PMIX_RANK=1", 2);
    check_rank(t, "OMPI_COMM_WORLD_SIZE=3 PMIX_RANK=1", 1);
    check_rank(t, "PMI_SIZE=2 PMI_RANK=1", 1);
    check_rank(t, "MV2_COMM_WORLD_SIZE=2 MV2_COMM_WORLD_RANK=0", 0);
    check_rank(t, "PMIX_RANK=3 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4", 3);
    check_rank(t, "PMI_SIZE=2 OMPI_COMM_WORLD_RANK=1", SIZE_MAX);
    check_rank(t, "PMI_SIZE=2 PMI_RANK=2", SIZE_MAX);
    check_rank(t, "PMI_SIZE=2 PMI_RANK=x", SIZE_MAX);
    check_rank(t, "PMI_SIZE=x PMI_RANK=0", SIZE_MAX);
}

static void through_tcp(test *t)
{
    static const struct {
        const char *environment, *message;
    } wrong[] = {
        {"DPTRAIN_ADDRESS=a:1", "DPTRAIN_PROCESSES is"},
        {"DPTRAIN_ADDRESS=a:1 DPTRAIN_PROCESSES=0", "DPTRAIN_PROCESSES is"},
        {"DPTRAIN_ADDRESS=a:1 DPTRAIN_PROCESSES=x", "DPTRAIN_PROCESSES is"},
        {"DPTRAIN_ADDRESS=a:1 DPTRAIN_PROCESSES=2 PMI_SIZE=2", "and PMI_SIZE (of an MPI"},
        {"DPTRAIN_ADDRESS=a:1 DPTRAIN_PROCESSES=1 DPTRAIN_RANK=5", "DPTRAIN_PROCESSES is 1"},
        {"DPTRAIN_PROCESSES=3 DPTRAIN_RANK=1", "DPTRAIN_PROCESSES is set and DPTRAIN_ADDRESS"},
        {"DPTRAIN_RANK=1", "DPTRAIN_RANK is set and DPTRAIN_ADDRESS"},
    };
    const char *which;
    size_t n;
    check_count(t, "DPTRAIN_ADDRESS=a:1 DPTRAIN_PROCESSES=3", 3, "DPTRAIN_PROCESSES");
    check_count(t, "DPTRAIN_TRANSPORT=tcp DPTRAIN_PROCESSES=2 PMI_SIZE=4", 2, "DPTRAIN_PROCESSES");
    check_count(t, "DPTRAIN_ADDRESS=a:1 DPTRAIN_TRANSPORT=mpi PMI_SIZE=4", 4, "PMI_SIZE");
    check_count(t, "DPTRAIN_TRANSPORT=none DPTRAIN_PROCESSES=3 DPTRAIN_RANK=1", 1, "none");
    check_rank(t, "DPTRAIN_ADDRESS=a:1 DPTRAIN_PROCESSES=3 DPTRAIN_RANK=1", 1);
    check_rank(t, "DPTRAIN_ADDRESS=a:1 DPTRAIN_PROCESSES=3 DPTRAIN_RANK=3", SIZE_MAX);
    check_rank(t, "DPTRAIN_ADDRESS=a:1 DPTRAIN_PROCESSES=3", SIZE_MAX);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        dpt_error error = {.status = DPT_OK};
        CHECK_STATUS(launched(wrong[i].environment, &n, &which, &error), DPT_E_INVALID);
        CHECK_CONTAINS(error.message, wrong[i].message);
    }
}

static void no_number(test *t)
{
    static const char *const values[] = {"abc", "0", "-1", "2x", "65537"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char environment[64];
        const char *which;
        size_t n;
        dpt_error error = {.status = DPT_OK};
        snprintf(environment, sizeof environment, "PMI_SIZE=%s", values[i]);
        CHECK_STATUS(launched(environment, &n, &which, &error), DPT_E_INVALID);
        CHECK(strstr(error.message, "PMI_SIZE") && strstr(error.message, values[i]));
    }
}

static void told_to_train_alone(test *t)
{
    const char *which;
    size_t n;
    dpt_error error = {.status = DPT_OK};
    CHECK_OK(launched("OMPI_COMM_WORLD_SIZE=3 DPTRAIN_TRANSPORT=none", &n, &which, &error));
    CHECK_SIZE(dpt_processes_launched(), 1);
    CHECK_STATUS(launched("PMI_SIZE=x DPTRAIN_TRANSPORT=none", &n, &which, &error), DPT_E_INVALID);
    dpt_context *context = NULL;
    REQUIRE_OK(dpt_context_create(&context));
    CHECK_OK(dpt_processes_join(context)); /* it does not matter then */
    (void)unsetenv("DPTRAIN_TRANSPORT");
    CHECK_STATUS(dpt_processes_join(context), DPT_E_INVALID);
    CHECK(strstr(dpt_error_message(context), "PMI_SIZE is \"x\"") != NULL);
    dpt_context_destroy(context);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"of launchers", of_launchers},
        {"of Slurm with PMIx", of_slurm_with_pmix},
        {"ranks", ranks},
        {"through TCP", through_tcp},
        {"no number", no_number},
        {"told to train alone", told_to_train_alone},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
