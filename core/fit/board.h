/* What TensorBoard shows of a run (docs/tensorboard.md): curves over the steps, a text for each
   event of a device, hyper-parameters and, if asked for, histograms of the weights.  Every function
   does nothing if there is no board. */
#ifndef DPTI_BOARD_H
#define DPTI_BOARD_H

#include "fit/told.h"
#include "io/events.h"

/* The curves of a device. */
typedef enum dpti_device_curve {
    DPTI_CURVE_SHARE, /* part of the step's samples, from 0 to 1 */
    DPTI_CURVE_BUSY,  /* seconds, as those below */
    DPTI_CURVE_EXCHANGE,
    DPTI_CURVE_WAITING,
    DPTI_DEVICE_CURVES
} dpti_device_curve;

/* The board of a run.  All zero: no board. */
typedef struct dpti_board {
    dpt_trainer *trainer;
    dpti_events *events;
    bool histograms, classifies;
    double units_per_sample; /* tokens of a sample of text; else 1 */
    char **tags;             /* (n_devices, DPTI_DEVICE_CURVES) */
    dpti_scalar *scalars;    /* room for those of a step */
} dpti_board;

typedef struct dpti_board_options {
    const char *folder; /* which exists */
    bool histograms;
    const dpti_schedule *schedule; /* for the hyper-parameters */
} dpti_board_options;

/* Begins a board with the step behind those that the weights contain.  The error is in *error.
   dpti_board_end must be called in any case. */
DPT_CHECK_RESULT dpt_status dpti_board_begin(dpti_board *board, dpt_trainer *trainer,
                                             const dpti_board_options *options, dpt_error *error);
/* Adds what the trainer reports.  A failure is that of this call or of an earlier one. */
DPT_CHECK_RESULT dpt_status dpti_board_step(dpti_board *board, const dpt_step_metrics *step,
                                            dpt_error *error);
/* Adds an epoch, whose weights are the trainer's; a part of an epoch has 0 images_per_second, and
   its evaluations alone are added.  No step may be in flight.  Errors: also those of reading the
   weights for histograms, which the trainer's context has too. */
DPT_CHECK_RESULT dpt_status dpti_board_epoch(dpti_board *board, const dpt_epoch_metrics *epoch,
                                             dpt_error *error);
/* Writes what is in the buffer, so that a training that resumes from a checkpoint of now has all
   curves up to it. */
DPT_CHECK_RESULT dpt_status dpti_board_flush(dpti_board *board, dpt_error *error);
void dpti_board_event(dpti_board *board, const dpt_device_event *event);
/* Ends the board and closes its file. `finished`: training has come to its end. */
DPT_CHECK_RESULT dpt_status dpti_board_end(dpti_board *board, bool finished, dpt_error *error);

#endif
