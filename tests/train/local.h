/* Trainings with local steps, over several processes that are threads (processes.h). */
#ifndef DPT_TEST_LOCAL_H
#define DPT_TEST_LOCAL_H

#include "harness.h"
#include "train/flat.h"
#include "train/processes.h"
#include "train/replicas/state_buffers.h"

enum { LOCAL_MOST = 3, LOCAL_DEVICES = 4, LOCAL_STEPS = 19, LOCAL_PER_EPOCH = 8 };

#define LOCAL_ONE     "cpu:threads=1"
#define LOCAL_TWO     LOCAL_ONE "|" LOCAL_ONE
#define LOCAL_UNEQUAL LOCAL_ONE "," LOCAL_ONE "|" LOCAL_ONE

/* The training state of a trainer: (flat_size) each, NULL where the trainer has none. */
typedef struct local_state {
    float *flats[DPTI_MAX_STATE_BUFFERS], *velocity; /* velocity: that of the outer step */
    float *residual; /* error feedback of this process; NULL: it has none */
} local_state;

/* One training of flat_residual on flat_data, and what has come of it. */
typedef struct local_course {
    const char *devices, *split;
    dpt_trainer_options options;
    size_t count, steps;
    bool fits; /* by dpt_fit, with checkpoints in "kept" and the log kept.jsonl */
    bool resumes;
    size_t stops, stopper; /* process `stopper` asks for the end in this step; 0: none does */
    const dpt_fit_options *limits; /* NULL: `steps` in all */
    /* Without dpt_fit: what a process does before a step, from 1, is submitted; NULL: nothing. */
    dpt_status (*before)(dpt_trainer *trainer, size_t step);
    /* What came of it, in each process, and in the steps of the first one. */
    local_state states[LOCAL_MOST]; /* of the first device */
    dpt_fit_result results[LOCAL_MOST];
    dpt_status statuses[LOCAL_MOST];
    char messages[LOCAL_MOST][512];
    size_t n_steps, shards[LOCAL_STEPS][LOCAL_DEVICES];
    double losses[LOCAL_STEPS], round_seconds[LOCAL_STEPS];
} local_course;

/* SGD with momentum on all of the data: LOCAL_STEPS steps, LOCAL_PER_EPOCH an epoch. */
local_course local_with(const char *devices, size_t local_steps);
void local_forget(local_course *course);

/* Trains; with two steps in flight where no round ends between them.  The first failure in the
   order of ranks.  `trains` checks that there is none. */
dpt_status local_train(local_course *course);
bool local_trains(test *t, local_course *course);

/* The state of a trainer's first device. */
DPT_CHECK_RESULT dpt_status local_note_state(dpt_trainer *trainer, local_state *out);
void local_forget_state(local_state *state);
/* How many elements of the parameters differ, as numbers: zeros may have another sign. */
size_t local_count_differences(const local_state *a, const local_state *b);
/* Two states are the same; and those of all processes. */
void local_check_same(test *t, const local_state *a, const local_state *b);
void local_check_processes_agree(test *t, const local_course *course);

#endif
