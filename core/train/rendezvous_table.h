/* The table by which membership reaches all places where driver threads wait for each other. */
#ifndef DPTI_RENDEZVOUS_TABLE_H
#define DPTI_RENDEZVOUS_TABLE_H

#include "train/membership/rendezvous.h"

extern const dpti_rendezvous_table dpti_trainer_rendezvous;

#endif
