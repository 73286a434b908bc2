/* Trainings whose optimizer's state is in parts, and the same without, which have the same bits. */
#ifndef DPT_TEST_PARTS_H
#define DPT_TEST_PARTS_H

#include "harness.h"
#include "train/flat.h"
#include "train/mixes.h"

enum { PARTS_STEPS = 6, PARTS_BATCH = 29, PARTS_KINDS = 3, PARTS_OPTIMIZERS = 6 };

typedef struct parts_setting {
    dpt_context *context;
    dpt_dataset *data;
    dpt_model *residual, *wide; /* with batch-norm; one tensor is nearly all of it */
} parts_setting;

/* A training, and whether its optimizer's state is in parts. */
typedef struct parts_course {
    const char *devices, *split;
    dpt_trainer_options options; /* of the optimizer; the rest is filled in */
    const dpt_model *model;
    size_t micro_batch, accumulate;
    dpt_shard parts;
    bool offload;
    bool deterministic, sets; /* sets: a tensor of the optimizer's state is set halfway */
} parts_course;

/* The training state behind it, as flat buffers; free it in any case. */
typedef struct parts_state {
    float *flats[PARTS_KINDS];
    size_t n[PARTS_KINDS];
} parts_state;

/* Sees the trainer before the first step. */
typedef void parts_look(test *t, const dpt_trainer *trainer);

/* Of the optimizer alone.  The first one has no state. */
extern const dpt_trainer_options parts_optimizers[PARTS_OPTIMIZERS];

/* What trainings of a context need; close it in any case. */
DPT_CHECK_RESULT dpt_status parts_open(dpt_context *context, parts_setting *out);
void parts_close(parts_setting *setting);

/* Runs the cases; t->user is a parts_setting. */
int parts_main(int argc, char **argv, const test_case *cases, size_t n);

/* With offload, devices of $DPTRAIN_TEST_BACKEND are taken for cards. */
DPT_CHECK_RESULT dpt_status parts_create(const parts_setting *s, const parts_course *task,
                                         dpt_device_set *set, dpt_trainer **out);
/* Trains; `look` may be NULL.  False if something has failed, which is noted. */
bool parts_train(test *t, const parts_course *task, parts_look *look, parts_state *out);
void parts_compare(test *t, const parts_course *task, const parts_state *right,
                   const parts_state *now);
void parts_free(parts_state *s);

/* Trainings on each of the mixes, in this way. */
typedef struct parts_trial {
    dpt_shard parts;
    bool offload, deterministic;
    mix_list mixes;
    parts_look *look;
    bool looks_once; /* at the first mix */
} parts_trial;

/* Compares them with trainings without parts, for all optimizers and both networks. */
void parts_same_bits(test *t, const parts_trial *trial);

#endif
