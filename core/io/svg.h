/* Draws diagrams as SVG text: elements, escaped text, axes with round numbers.  Numbers are not
   written with printf's %f, because its decimal point depends on the program's locale. */
#ifndef DPTI_SVG_H
#define DPTI_SVG_H

#include "dpt_types.h"

/* A growing text.  The first failure to get memory sticks; what follows does nothing. */
typedef struct dpti_svg {
    char *text;
    size_t length, capacity;
    bool failed;
} dpti_svg;

DPT_PRINTF(2, 3) void dpti_svg_put(dpti_svg *svg, const char *format, ...);
/* Text from outside: special characters escaped; what XML cannot hold becomes '?'. */
void dpti_svg_escape(dpti_svg *svg, const char *text);
/* A point of the picture, in pixels from its upper left corner. */
typedef struct dpti_point {
    double x, y;
} dpti_point;

/* A text element of a CSS class; the class decides which part of the text lies at the point. */
void dpti_svg_text(dpti_svg *svg, dpti_point at, const char *css_class, const char *text);
void dpti_svg_free(dpti_svg *svg);

enum { DPTI_NUMBER_BYTES = 40 };

/* value with 0 to 9 decimals, into out, which it returns. */
const char *dpti_svg_number(char out[DPTI_NUMBER_BYTES], double value, int decimals);

/* A coordinate with 2 decimals, as an argument of dpti_svg_put. */
#define DPTI_PX(value) dpti_svg_number((char[DPTI_NUMBER_BYTES]){0}, (value), 2)

typedef struct dpti_axis {
    double low, high; /* the ends; low < high */
    double step;      /* between ticks: 1, 2 or 5 times a power of ten */
} dpti_axis;

/* An axis over low .. high, as given, with at most about n_ticks ticks; whole: at whole numbers. */
dpti_axis dpti_axis_make(double low, double high, int n_ticks, bool whole);
/* The same, its ends moved outwards to ticks. */
dpti_axis dpti_axis_make_round(double low, double high, int n_ticks);

/* Writes the label of a tick at a value of an axis with this step into out, which it returns: with
   as many decimals as the step needs, or as a power of ten for extreme values. */
const char *dpti_axis_label(char out[DPTI_NUMBER_BYTES], double value, double step);

/* The area of a diagram, in pixels, and what its edges stand for. */
typedef struct dpti_frame {
    double x, y, width, height;
    dpti_axis across, up;
    const char *unit; /* behind the labels of the upward axis, or "" */
    double unit_factor;
} dpti_frame;

double dpti_frame_x(const dpti_frame *frame, double value);
double dpti_frame_y(const dpti_frame *frame, double value);
/* Grid lines and tick labels. */
void dpti_svg_frame(dpti_svg *svg, const dpti_frame *frame);

#endif
