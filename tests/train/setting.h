/* The set-up of tests that train the residual network of flat.h on a list of mixes (mixes.h), with
   samples of the same data that each test stores in its own way. */
#ifndef DPT_TEST_SETTING_H
#define DPT_TEST_SETTING_H

#include "harness.h"
#include "train/flat.h"
#include "train/mixes.h"

/* What the tests of a program share. */
typedef struct setting {
    dpt_context *context;
    dpt_dataset *all; /* flat_data */
    dpt_model *model; /* flat_residual */
    mix_list mixes;
} setting;

typedef struct setting_plan {
    const test_case *cases;
    size_t n_cases;
    size_t n_samples; /* of setting.all */
    const mix *cpu_mixes;
    size_t n_cpu_mixes;
} setting_plan;

/* Makes a setting and runs the cases with it.  Returns the exit status of the program. */
int setting_main(int argc, char **argv, const setting_plan *plan);

/* Describes the first `count` samples of the data of a setting, as a data set in memory. */
dpt_dataset_memory setting_memory(const dpt_dataset *all, size_t count);

#endif
