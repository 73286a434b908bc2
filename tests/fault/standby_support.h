/* A training with devices on standby.  The test, not a clock, decides which devices are on standby
   and when. */
#ifndef DPT_TEST_STANDBY_SUPPORT_H
#define DPT_TEST_STANDBY_SUPPORT_H

#include "fault/plant.h"
#include "train/state/trainer.h"

enum { SIDE = 8, COUNT = 40, CLASSES = 3, BATCH = 12, STEPS = 18, REST = 4, WAKE = 12, ANY = 9 };

typedef struct training {
    dpt_context *context;
    dpt_device_set *set;
    dpt_model *model;
    dpt_dataset *data;
    dpt_trainer *trainer;
    char devices[256];
    size_t n_steps, n_lost, n_told;
    bool wakes;
    size_t rests; /* which device; 0 stands for 1 */
    size_t woken; /* by what happens: in this step; 0: it is not */
    /* In dpt_fit, while steps are done again: */
    size_t n_asked; /* calls with nothing to tell, */
    size_t awaited; /* before them, behind the next step: the checkpoint of this step; 0: none is */
    size_t stop_at; /* which of them ends training, or */
    double until;   /* waits in it until so many seconds have passed; 0: none does */
    bool fills_disk; /* then, for what is larger than weights alone */
} training;

/* On so many samples, or COUNT; to be ended, whatever comes of it. */
DPT_CHECK_RESULT dpt_status standby_begin_on(test *t, const char *devices, size_t count,
                                             training *w);
DPT_CHECK_RESULT dpt_status standby_begin(test *t, const char *devices, training *w);
void standby_end(training *w);
/* As if this had been measured: that device rests, or wakes up. */
void standby_change(training *w);
/* What is to be behind so many steps. */
void standby_plan(test *t, training *w, size_t done);
/* Whether it rests in this step. */
bool standby_is_due(const training *w, size_t step);
/* So many steps more, as planned. */
void standby_steps(test *t, training *w, size_t n);
/* A replica has the weights that one healthy device comes to, within rounding. */
void standby_check_weights(test *t, training *w, size_t device);

#endif
