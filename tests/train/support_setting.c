#include "train/setting.h"
#include "train/support.h"

int setting_main(int argc, char **argv, const setting_plan *plan)
{
    const int missing = tested_backend_missing();
    if (missing != 0) return missing;
    add_fault_plugins();
    setting s = {.context = NULL};
    int status = 1;
    if (dpt_context_create(&s.context) == DPT_OK &&
        flat_data(s.context, plan->n_samples, 0, &s.all) == DPT_OK &&
        flat_residual(s.context, &s.model) == DPT_OK) {
        s.mixes = tested_mixes(plan->cpu_mixes, plan->n_cpu_mixes);
        status = test_main(argc, argv, plan->cases, plan->n_cases, &s);
    }
    dpt_model_destroy(s.model);
    dpt_dataset_destroy(s.all);
    dpt_context_destroy(s.context);
    return status;
}

dpt_dataset_memory setting_memory(const dpt_dataset *all, size_t count)
{
    return (dpt_dataset_memory){.size = sizeof(dpt_dataset_memory),
                                .count = count,
                                .height = FLAT_SIDE,
                                .width = FLAT_SIDE,
                                .channels = FLAT_CHANNELS,
                                .outputs = FLAT_CLASSES,
                                .dtype = DPT_U8,
                                .images = all->images,
                                .labels = all->labels,
                                .label_dtype = DPT_I32,
                                .mean = {0.4f, 0.4f, 0.4f},
                                .deviation = {0.25f, 0.25f, 0.25f}};
}
