/* How a batch is divided among devices.  The program trains on 100 random rows of 5 features, in
   batches of 30 rows (the last has 10).  Every device has a replica of one linear layer with 2
   outputs.  The program prints the shard of each replica and the size of the whole batch.

   Shards are chunks of ceil(rows / devices) rows.  A small batch can therefore leave devices
   without rows: 10 rows over 8 devices make five shards of 2 rows.

       data_parallel_linear [DEVICES]            default: cpu,cpu
       data_parallel_linear DEVICES strict       divides 24 numbers evenly, or fails */
#include <dptrain.h>

#include <stdio.h>
#include <string.h>

enum { MAX_DEVICES = 16, COUNT = 100, FEATURES = 5, OUTPUTS = 2, BATCH = 30 };

/* ---- Linear(5, 2) on every device ------------------------------------------------------------ */

/* Rows with features in [0, 1), labelled by whether their sum is above the mean. */
static dpt_status create_data(dpt_context *context, dpt_dataset **out)
{
    float rows[COUNT][FEATURES];
    uint8_t labels[COUNT];
    uint32_t state = 1;
    for (size_t i = 0; i < COUNT; i++) {
        float sum = 0;
        for (size_t k = 0; k < FEATURES; k++) {
            state = state * 1664525U + 1013904223U; /* Numerical Recipes' generator */
            rows[i][k] = (float)(state >> 8) / (float)(1 << 24);
            sum += rows[i][k];
        }
        labels[i] = sum > 0.5F * FEATURES;
    }
    const dpt_dataset_memory memory = {
        .size = sizeof memory,
        .count = COUNT,
        .height = 1,
        .width = 1,
        .channels = FEATURES,
        .outputs = OUTPUTS,
        .dtype = DPT_F32,
        .images = rows,
        .labels = labels,
    };
    return dpt_dataset_from_memory(context, &memory, out); /* copies */
}

static dpt_status create_model(dpt_context *context, dpt_model **out)
{
    dpt_model *model;
    DPT_TRY(dpt_model_create(context, "linear", &model));
    *out = model;
    const dpt_value x = dpt_flatten(model, dpt_input(model, 1, 1, FEATURES));
    return dpt_model_finish(
        model,
        dpt_linear(model, x, "fc",
                   &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = OUTPUTS}));
}

/* One epoch of shuffled batches.  A step scatters a batch, trains on it, and collects the results.
 */
static dpt_status run_epoch(dpt_trainer *trainer, dpt_device_set *devices)
{
    dpt_step_metrics m = {.size = sizeof m};
    do {
        DPT_TRY(dpt_trainer_step(trainer, &m));
        for (size_t i = 0; i < m.n_devices; i++) {
            if (m.shards[i] == 0)
                continue; /* this replica only takes part in the sum of gradients */
            dpt_device_info device = {.size = sizeof device};
            dpt_device_describe(dpt_device_set_get(devices, i), &device);
            printf("  in replica %zu on %s: input size (%zu, %d), output size (%zu, %d)\n", i,
                   device.id, m.shards[i], FEATURES, m.shards[i], OUTPUTS);
        }
        printf("outside: input size (%zu, %d), output size (%zu, %d)\n", m.samples, FEATURES,
               m.samples, OUTPUTS);
    } while (!m.last_of_epoch);
    return DPT_OK;
}

static dpt_status linear(dpt_context *context, dpt_device_set *devices)
{
    const dpt_trainer_options how = {
        .size = sizeof how, .batch_size = BATCH, .split = {DPT_SPLIT_EQUAL, NULL}};
    dpt_dataset *data = NULL;
    dpt_model *model = NULL;
    dpt_trainer *trainer = NULL;
    dpt_status status = create_data(context, &data);
    if (!status) status = create_model(context, &model);
    if (!status) status = dpt_trainer_create(devices, model, data, &how, &trainer);
    if (!status) status = run_epoch(trainer, devices);
    dpt_trainer_destroy(trainer);
    dpt_model_destroy(model);
    dpt_dataset_destroy(data);
    return status;
}

/* ---- Strict: all devices get the same number of values --------------------------------------- */

enum { VALUES = 24 };

static dpt_status split_strictly(dpt_context *context, size_t n_rows, size_t n_devices,
                                 size_t *rows)
{
    if (n_rows % n_devices != 0)
        return dpt_fail(context, DPT_E_INVALID,
                        "%zu values do not divide evenly over %zu devices; take another batch "
                        "size, or shards that may differ",
                        n_rows, n_devices);
    return dpt_shard_rows(context, (dpt_split){.kind = DPT_SPLIT_EQUAL}, n_rows, n_devices, rows);
}

static dpt_status print_part(size_t i, dpt_array *part)
{
    float values[VALUES];
    DPT_TRY(dpt_array_get(part, values));
    printf("replica %zu:", i);
    for (size_t k = 0; k < dpt_array_size(part); k++)
        printf(" %g", (double)values[k]);
    printf("\n");
    return DPT_OK;
}

/* Divides the numbers 0 to 23: two devices get 0 to 11 and 12 to 23, five devices are an error. */
static dpt_status strict(dpt_context *context, dpt_device_set *devices)
{
    const size_t n = dpt_device_set_count(devices);
    float values[VALUES];
    size_t rows[MAX_DEVICES];
    dpt_array *parts[MAX_DEVICES] = {NULL};
    for (size_t i = 0; i < VALUES; i++)
        values[i] = (float)i;
    DPT_TRY(split_strictly(context, VALUES, n, rows));
    DPT_TRY(dpt_scatter(devices, values, VALUES, 1, rows, parts));
    dpt_status status = DPT_OK;
    for (size_t i = 0; i < n && !status; i++)
        status = print_part(i, parts[i]);
    for (size_t i = 0; i < n; i++)
        dpt_array_destroy(parts[i]);
    return status;
}

int main(int argc, char **argv)
{
    const bool is_strict = argc > 2 && strcmp(argv[2], "strict") == 0;
    dpt_context *context;
    dpt_device_set *devices = NULL;
    if (dpt_context_create(&context) != DPT_OK) return 1;
    dpt_status status = dpt_device_set_open(context, argc > 1 ? argv[1] : "cpu,cpu", &devices);
    if (!status && dpt_device_set_count(devices) > MAX_DEVICES)
        status = dpt_fail(context, DPT_E_INVALID, "at most %d devices, please", MAX_DEVICES);
    if (!status) status = is_strict ? strict(context, devices) : linear(context, devices);
    if (status) fprintf(stderr, "data_parallel_linear: %s\n", dpt_error_message(context));
    dpt_device_set_close(devices);
    dpt_context_destroy(context);
    return status ? 1 : 0;
}
