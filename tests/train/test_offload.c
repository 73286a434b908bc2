/* Tests training in which CPUs hold all parts of the optimizer's state (--offload): the same bits
   as without, what devices hold and copy, what is refused, and what is advised where memory is
   short.

   Devices of the fault plug-ins stand for cards (apart=1).  So does the first device of
   $DPTRAIN_TEST_BACKEND, with which "beside another backend" is run. */
#include "device/set.h"
#include "train/parts.h"
#include "train/replicas/state_parts.h"

#include <stdio.h>
#include <string.h>

enum { TEXT = 200 };

/* ---- What devices hold ----------------------------------------------------------------------- */

static bool is_cpu(const dpti_device *device)
{
    return device->info.flags & DPT_DEVICE_IS_HOST_CPU;
}

/* What a device has taken, counted at every allocation, is what the plan says. */
static void look_at_plan(test *t, const dpt_trainer *trainer, size_t i)
{
    const dpti_device *device = trainer->workers[i].device;
    const size_t used = atomic_load(&device->memory_used_bytes);
    dpt_device_plan plan = {.size = sizeof plan};
    CHECK_OK(dpt_trainer_plan(trainer->workers[0].trainer, i, &plan));
    CHECK_SIZE(used, plan.parameter_bytes + plan.optimizer_bytes + plan.activation_bytes +
                         plan.step_bytes + plan.data_bytes + plan.copy_bytes);
    CHECK_SIZE(plan.copy_bytes > 0, is_cpu(device));
    CHECK(used <= device->memory_limit_bytes);
}

/* CPUs hold all that is divided, and other devices nothing of it. */
static void look_at_offload(test *t, const dpt_trainer *trainer)
{
    const dpt_model *m = trainer->model;
    size_t at = 0;
    CHECK(dpt_trainer_offloaded(trainer));
    for (size_t i = 0; i < trainer->n_workers; i++) {
        const dpti_worker *w = &trainer->workers[i];
        const size_t n = w->replicas.part.end - w->replicas.part.begin;
        CHECK_SIZE(w->replicas.part.begin, at);
        CHECK(is_cpu(w->device) || n == 0);
        CHECK(n > 0 || (!w->replica.velocity.handle && !w->replica.squares.handle));
        if (n == 0 && dpti_state_parts_of_gradients(trainer))
            CHECK_SIZE(w->replica.sums.n_bytes,
                       (trainer->n_gradients - m->flat_trained) * sizeof(float));
        if (n == 0 && dpti_state_parts_of_parameters(trainer))
            CHECK_SIZE(w->replica.parameters.n_bytes,
                       (m->flat_gradients - m->flat_weights) * sizeof(float));
        /* Another backend may take scratch memory beside what the plan says. */
        if (testing_cpu()) look_at_plan(t, trainer, i);
        at = w->replicas.part.end;
    }
    CHECK_SIZE(at, m->flat_trained);
}

/* ---- The same bits --------------------------------------------------------------------------- */

/* A card beside a CPU that gets no samples, or some; CPUs that are no hosts of their memory, of
   which one is small; two cards. */
static const mix mixes[] = {
    {"faultstaged:threads=1:apart=1,cpu:threads=1", "1:0"},
    {"cpu:threads=1,fault:threads=1:apart=1", "1:3"},
    {"faultstaged:threads=1:memory=9M,faultstaged:threads=1:apart=1,cpu:threads=1:memory=30M",
     "2:5:1"},
    {"fault:threads=1:apart=1:island=1,fault:threads=1:apart=1:island=1,cpu:threads=1", "2:3:1"},
};

static void same_bits(test *t, bool deterministic, mix_list list)
{
    for (int parts = DPT_SHARD_OPTIMIZER; parts <= DPT_SHARD_PARAMETERS; parts++)
        parts_same_bits(t, &(parts_trial){.parts = (dpt_shard)parts,
                                          .offload = true,
                                          .deterministic = deterministic,
                                          .mixes = list,
                                          .look = look_at_offload});
}

static void deterministic(test *t)
{
    same_bits(t, true, (mix_list){sizeof mixes / sizeof *mixes, mixes});
}

static void by_default(test *t)
{
    same_bits(t, false, (mix_list){sizeof mixes / sizeof *mixes, mixes});
}

/* The first device of the backend stands for a card, also where it is the host's CPU. */
static void beside_another_backend(test *t)
{
    if (testing_cpu()) SKIP("no other backend is tested");
    const mix beside = {tested_devices("@0,cpu:threads=1"), "3:1"};
    same_bits(t, false, (mix_list){1, &beside});
}

/* ---- What is copied -------------------------------------------------------------------------- */

/* The first device's transfers, counted where core calls the backend. */
static struct {
    const dpt_memory_ops *memory;
    atomic_size_t n_bytes;
} counted;

static dpt_status count_upload(dpt_stream *stream, dpt_location to, const void *host,
                               size_t n_bytes)
{
    atomic_fetch_add(&counted.n_bytes, n_bytes);
    return counted.memory->upload(stream, to, host, n_bytes);
}

static dpt_status count_download(dpt_stream *stream, void *host, dpt_location from, size_t n_bytes)
{
    atomic_fetch_add(&counted.n_bytes, n_bytes);
    return counted.memory->download(stream, host, from, n_bytes);
}

/* The bytes that a step copies from and to the first device, and those of the update by the plan.
 */
static void count_copies(test *t, const parts_course *task, size_t *copied, size_t *planned)
{
    const parts_setting *s = t->user;
    dpt_device_set *set = NULL;
    dpt_trainer *trainer = NULL;
    dpt_step_metrics m = {.size = sizeof m};
    dpt_device_plan plan = {.size = sizeof plan};
    if (CHECK_OK(dpt_device_set_open(s->context, task->devices, &set)) &&
        CHECK_OK(parts_create(s, task, set, &trainer)) && CHECK_OK(dpt_trainer_step(trainer, &m))) {
        dpt_device *device = &set->devices[0]->base;
        const dpt_backend *const whole = device->backend;
        dpt_memory_ops memory = *whole->memory;
        dpt_backend counting = *whole;
        counted.memory = whole->memory;
        memory.upload = count_upload;
        memory.download = count_download;
        counting.memory = &memory;
        device->backend = &counting;
        atomic_store(&counted.n_bytes, 0);
        CHECK_OK(dpt_trainer_step(trainer, &m));
        *copied = atomic_load(&counted.n_bytes);
        device->backend = whole;
        CHECK_OK(dpt_trainer_plan(trainer, 0, &plan));
        *planned = plan.update_bytes;
    }
    dpt_trainer_destroy(trainer);
    dpt_device_set_close(set);
}

/* A step copies as much more than one without parts as the plan says.  With CPUs that hold all, it
   is the parameters, once. */
static void copies_are_planned(test *t)
{
    const parts_setting *s = t->user;
    const parts_course plain = {.options = parts_optimizers[3],
                                .model = s->residual,
                                .split = "2:1",
                                .devices = "faultstaged:threads=1:apart=1,cpu:threads=1"};
    size_t without = 0, with = 0, none = 1, planned = 0, offloaded = 0;
    parts_course task = plain;
    count_copies(t, &task, &without, &none);
    CHECK_SIZE(none, 0);
    task.parts = DPT_SHARD_OPTIMIZER;
    count_copies(t, &task, &with, &planned);
    CHECK_SIZE(with - without, planned);
    task.offload = true;
    count_copies(t, &task, &with, &offloaded);
    CHECK_SIZE(with - without, offloaded);
    CHECK_SIZE(offloaded, s->residual->flat_trained * sizeof(float));
    CHECK(offloaded < planned);
}

/* ---- What is refused and advised ------------------------------------------------------------- */

/* What offload needs. */
static void refusals(test *t)
{
    const parts_setting *s = t->user;
    static const char card[] = "fault:threads=1:apart=1,cpu:threads=1",
                      cards[] = "fault:threads=1:apart=1,faultstaged:threads=1:apart=1";
    const struct {
        const char *message;
        parts_course task;
    } ways[] = {
        {"needs a CPU", {.devices = cards, .options = parts_optimizers[1]}},
        {"all devices are CPUs",
         {.devices = "cpu:threads=1,fault:threads=1", .options = parts_optimizers[1]}},
        {"all devices are CPUs", {.devices = "cpu:threads=1", .options = parts_optimizers[1]}},
        {"an optimizer with a state", {.devices = card, .options = {.lr = 0.1f}}},
        {"overlap",
         {.devices = card,
          .parts = DPT_SHARD_GRADIENTS,
          .options = {.lr = 0.1f, .no_overlap = true}}},
        {NULL, {.devices = card, .options = parts_optimizers[1]}},
        {NULL, {.devices = card, .parts = DPT_SHARD_GRADIENTS, .options = {.lr = 0.1f}}},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        parts_course task = ways[i].task;
        dpt_device_set *set = NULL;
        dpt_trainer *trainer = NULL;
        task.model = s->wide;
        task.offload = true;
        if (CHECK_OK(dpt_device_set_open(s->context, task.devices, &set))) {
            CHECK_STATUS(parts_create(s, &task, set, &trainer),
                         ways[i].message ? DPT_E_INVALID : DPT_OK);
            if (ways[i].message) CHECK_CONTAINS(dpt_error_message(s->context), ways[i].message);
            if (trainer) CHECK(dpt_trainer_sharded(trainer) != DPT_SHARD_NONE);
        }
        dpt_trainer_destroy(trainer);
        dpt_device_set_close(set);
    }
}

/* A card whose memory does not hold both moments beside the rest.  A CPU that holds them is named
   before parts of the card, and parts of the card where the CPU is too small. */
static void is_advised(test *t)
{
    static const struct {
        size_t card, cpu; /* percents */
        bool offload;
        const char *message;
    } ways[] = {
        {70, 300, false, "; the training fits with --offload (each step copies"},
        {70, 90, false, "; the training fits with --shard optimizer"},
        {95, 80, true, "; the training fits with --shard optimizer and without --offload"},
        {45, 300, false, "; the training fits with --shard gradients --offload (each step copies"},
    };
    const parts_setting *s = t->user;
    const size_t all = 4 * s->wide->flat_size * sizeof(float);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char devices[TEXT];
        snprintf(devices, sizeof devices,
                 "faultstaged:threads=1:apart=1:memory=%zu,cpu:threads=1:memory=%zu",
                 ways[i].card * all / 100, ways[i].cpu * all / 100);
        parts_course task = {.options = parts_optimizers[3],
                             .model = s->wide,
                             .split = "1:1",
                             .micro_batch = 1,
                             .offload = ways[i].offload,
                             .devices = devices};
        dpt_device_set *set = NULL;
        dpt_trainer *trainer = NULL;
        parts_state now;
        if (CHECK_OK(dpt_device_set_open(s->context, devices, &set))) {
            CHECK_STATUS(parts_create(s, &task, set, &trainer), DPT_E_NO_MEMORY);
            CHECK_CONTAINS(dpt_error_message(s->context), ways[i].message);
        }
        dpt_trainer_destroy(trainer);
        dpt_device_set_close(set);
        task.offload = !task.offload && strstr(ways[i].message, "--offload");
        task.parts = strstr(ways[i].message, "gradients") ? DPT_SHARD_GRADIENTS
                     : task.offload                       ? DPT_SHARD_NONE
                                                          : DPT_SHARD_OPTIMIZER;
        (void)parts_train(t, &task, task.offload ? look_at_offload : NULL, &now);
        parts_free(&now);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {{"deterministic", deterministic},
                                      {"by default", by_default},
                                      {"beside another backend", beside_another_backend},
                                      {"copies are planned", copies_are_planned},
                                      {"refusals", refusals},
                                      {"is advised", is_advised}};
    const int missing = tested_backend_missing();
    return missing ? missing : parts_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
