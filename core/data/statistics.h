/* Means and deviations of byte images, computed from a histogram of each channel. */
#ifndef DPTI_STATISTICS_H
#define DPTI_STATISTICS_H

#include "data/data.h"

enum { DPTI_BYTES = 256 };

typedef struct dpti_histogram {
    uint64_t counts[DPTI_MAX_STAT_CHANNELS][DPTI_BYTES];
} dpti_histogram;

/* Adds an image of these data, which are DPT_U8 with up to 4 channels. */
void dpti_histogram_add(dpti_histogram *histogram, const dpt_dataset *data, const uint8_t *image);
/* Computes means and deviations in units of the range 0 to 1; 0 for a channel without pixels. */
void dpti_histogram_moments(const dpti_histogram *histogram, double mean[DPTI_MAX_STAT_CHANNELS],
                            double variance[DPTI_MAX_STAT_CHANNELS]);

#endif
