/* Mixup (Zhang et al. 2018) and CutMix (Yun et al. 2019): each sample of a training batch is mixed
   with its partner, the sample at the next place of the batch; that of the last sample is the first
   one.  What is drawn for a sample is a function of seed, epoch and the sample's number, so the
   result depends on no device and no shard. */
#ifndef DPTI_MIX_H
#define DPTI_MIX_H

#include "dpt_types.h"

typedef struct dpti_mix_options {
    float mixup, cutmix; /* alpha of Beta(alpha, alpha); 0: not used.  If both are used, each has
                            half of the samples. */
    size_t height, width;
    uint64_t seed;
} dpti_mix_options;

/* A rectangle of CutMix: the number of Beta(alpha, alpha), and the pixel in its middle. */
typedef struct dpti_mix_cut {
    double number;
    size_t x, y;
} dpti_mix_cut;

/* Draws for a sample, and writes 2 + height + width numbers (graph/mixed.h):
     the weight of the sample's own label: lambda, a multiple of 2^-24;
     1 if the own label has at least half of the weight, else 0;
     for each row, and then for each column, a number.  The product of the numbers of a row and a
     column is the weight of the partner's pixel there.
   Mixup: lambda is of Beta(alpha, alpha).  Rows have 1 - lambda, columns 1.
   CutMix, as torchvision has it: a is of Beta(alpha, alpha), and r = sqrt(1 - a) / 2.  The middle
   of a rectangle is drawn from all pixels; it reaches floor(r height) rows and floor(r width)
   columns to each side, within the image.  Rows and columns of the rectangle have 1, others 0, and
   lambda is the part of the pixels outside of it. */
void dpti_mix_draw(const dpti_mix_options *options, size_t epoch, uint32_t sample, float *out);

/* What dpti_mix_draw writes for a rectangle, and for a number of mixup's Beta(alpha, alpha). */
void dpti_mix_by_cut(const dpti_mix_options *options, const dpti_mix_cut *cut, float *out);
void dpti_mix_by_blend(const dpti_mix_options *options, double number, float *out);

#endif
