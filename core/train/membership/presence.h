/* Which devices take part in steps: questions that every concern asks about a worker, and the two
   functions by which a worker's state changes. */
#ifndef DPTI_PRESENCE_H
#define DPTI_PRESENCE_H

#include "device/device.h"
#include "train/components/membership.h"

typedef struct dpt_trainer dpt_trainer;
typedef struct dpti_worker dpti_worker;

/* What membership.h says about a worker. */
bool dpti_is_lost(const dpti_worker *worker);    /* its device is out of service */
bool dpti_is_hung(const dpti_worker *worker);    /* its driver thread was given up */
bool dpti_is_standby(const dpti_worker *worker); /* its device is on standby */
bool dpti_is_stale(const dpti_worker *worker);   /* its replica does not hold the training state */
bool dpti_sits_out(const dpti_worker *worker);   /* lost or on standby: no part in steps */
/* Whether its replica is as of an earlier step, torn or not; and the step that this replica is to
   do next, NULL if the replica is not behind, or torn. */
bool dpti_is_behind(const dpti_worker *worker);
const dpti_cursor *dpti_stands_at(const dpti_worker *worker);
/* Whether no other device sums gradients with this one. */
bool dpti_is_alone(const dpti_worker *worker);
/* Of this process: lost devices, and devices that take part in steps. */
size_t dpti_trainer_n_lost(const dpt_trainer *trainer);
size_t dpti_trainer_n_present(const dpt_trainer *trainer);
/* Whether one of the devices fails where the other does. */
bool dpti_same_fault_domain(const dpti_device *a, const dpti_device *b);
/* Once a worker's device hung: of the call that did not return. */
const dpt_error *dpti_hung_error(const dpti_worker *worker);

/* Change a worker's device state or its replica's validity (membership.h). */
void dpti_change_device(dpti_worker *worker, dpti_device_change change);
void dpti_change_replica(dpti_worker *worker, dpti_replica_change change);
/* DPTI_REPLICA_SKIP: the valid replica of a device on standby misses this step first. */
void dpti_skip_step(dpti_worker *worker, dpti_cursor step);
/* DPT_E_INTERNAL if a change was refused: an error of this program. */
DPT_CHECK_RESULT dpt_status dpti_membership_check(const dpt_trainer *trainer);

#endif
