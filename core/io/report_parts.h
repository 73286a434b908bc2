/* The parts of a report, each of which appends a section to the text of the page (report.h). */
#ifndef DPTI_REPORT_PARTS_H
#define DPTI_REPORT_PARTS_H

#include "io/report.h"
#include "io/svg.h"

/* The parts of the style sheet, up to NULL (report_style.c). */
extern const char *const dpti_report_style[];

/* Curves of losses, accuracies and rates, the shares of devices, and the table of epochs
   (report_curves.c). */
void dpti_report_put_curves(dpti_svg *page, const dpti_report *report);
void dpti_report_put_shares(dpti_svg *page, const dpti_report *report);
/* The confusion matrix or the most confused pairs, the figures of each class, and the worst samples
   (report_classes.c). */
void dpti_report_put_classes(dpti_svg *page, const dpti_report *report);

/* A number with so many decimals, as an argument of dpti_svg_put. */
#define DPTI_NUMBER(value, decimals)                                                               \
    dpti_svg_number((char[DPTI_NUMBER_BYTES]){0}, (value), (decimals))

#endif
