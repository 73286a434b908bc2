/* Making a trainer with the options that are given, or rehearsing it. */
#ifndef DPTI_CREATE_H
#define DPTI_CREATE_H

#include "dptrain.h"

/* What a trainer is made of. */
typedef struct dpti_creation {
    dpt_device_set *devices;
    const dpt_model *model;
    const dpt_dataset *data;
    const dpt_trainer_options *options; /* resolved (options.h) */
    bool divides;   /* it is not made where there is nothing to divide in the way of `shard` */
    bool rehearsed; /* the devices rehearse (device/rehearsal.h): the trainer makes no step */
} dpti_creation;

typedef enum dpti_obstacle_kind {
    DPTI_OBSTACLE_OTHER,
    DPTI_OBSTACLE_DIVISION, /* `shard` or `offload` is refused */
    DPTI_OBSTACLE_MEMORY,   /* the devices do not hold it */
} dpti_obstacle_kind;

/* Why a trainer was not made. */
typedef struct dpti_obstacle {
    dpti_obstacle_kind kind;
    size_t rank; /* the device whose memory is too little; the number of devices: not known */
} dpti_obstacle;

/* Makes a trainer.  Errors as of dpt_trainer_create; *obstacle then tells more. */
DPT_CHECK_RESULT dpt_status dpti_trainer_make(const dpti_creation *of, dpti_obstacle *obstacle,
                                              dpt_trainer **out);

#endif
