/* The clock by which everything is timed. */
#ifndef DPTI_CLOCK_H
#define DPTI_CLOCK_H

/* Returns the seconds since a fixed moment in the past.  The value never decreases. */
double dpti_seconds(void);

#endif
