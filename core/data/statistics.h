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

/* What a survey calls for an image that cannot be read. */
typedef struct dpti_survey_visit {
    void (*unreadable)(void *user, size_t sample, const char *why);
    void *user;
} dpti_survey_visit;

/* Reads all images of a data set that has a reader, and visits those that cannot be read, in their
   order.  Errors: as of dpt_dataset_survey. */
DPT_CHECK_RESULT dpt_status dpti_survey_unreadable(dpt_dataset *data,
                                                   const dpti_survey_visit *visit,
                                                   dpt_error *error);

#endif
