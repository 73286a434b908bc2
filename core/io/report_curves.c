/* The curves of a report.  A diagram is as wide as its place: its lines are in an SVG element that
   is stretched, with strokes of one width, and its labels are texts of the page beside it. */
#include "io/report_parts.h"

#include <math.h>
#include <stdlib.h>

enum {
    BINS = 400,        /* points of a curve, at most */
    SIZE = 1000,       /* width and height of a diagram, in its own units */
    MOST_MARKS = 40,   /* epochs whose points are drawn */
    MOST_EPOCHS = 200, /* rows of the table of epochs */
    X_TICKS = 5,
    Y_TICKS = 5,
    N_STYLES = 3, /* of lines, in the style sheet */
};

/* Larger values are not drawn, because their differences must be finite. */
static const double huge_value = 1e100;

static bool is_drawn(double value)
{
    return fabs(value) < huge_value; /* false for NaN */
}

/* ---- Diagrams -------------------------------------------------------------------------------- */

typedef struct diagram {
    dpti_svg *page;
    dpti_axis across, up;
} diagram;

static double across(const diagram *d, double value)
{
    return SIZE * (value - d->across.low) / (d->across.high - d->across.low);
}

static double up(const diagram *d, double value)
{
    return SIZE * (d->up.high - value) / (d->up.high - d->up.low);
}

/* Calls `put` for each tick of an axis. */
static void each_tick(const diagram *d, const dpti_axis *axis,
                      void (*put)(const diagram *d, double value))
{
    enum { MOST_TICKS = 30 };
    const double first = ceil(axis->low / axis->step - 1e-6);
    for (int i = 0; i < MOST_TICKS; i++) {
        const double value = (first + i) * axis->step;
        if (value > axis->high + 1e-6 * axis->step) break;
        put(d, value);
    }
}

static void put_grid(const diagram *d, double value)
{
    dpti_svg_put(d->page, "<path class=\"grid\" d=\"M0 %sH%d\"/>", DPTI_PX(up(d, value)), SIZE);
}

static void put_y_label(const diagram *d, double value)
{
    char label[DPTI_NUMBER_BYTES];
    dpti_svg_put(d->page, "<span style=\"top:%s%%\">%s</span>", DPTI_PX(100 * up(d, value) / SIZE),
                 dpti_axis_label(label, value, d->up.step));
}

static void put_x_label(const diagram *d, double value)
{
    char label[DPTI_NUMBER_BYTES];
    dpti_svg_put(d->page, "<span style=\"left:%s%%\">%s</span>",
                 DPTI_PX(100 * across(d, value) / SIZE),
                 dpti_axis_label(label, value, d->across.step));
}

/* Begins the drawing of a diagram, whose contents `words` tell those who do not see it. */
static void begin_drawing(const diagram *d, const char *words)
{
    dpti_svg_put(d->page, "<div class=\"plot\" role=\"img\" aria-label=\"");
    dpti_svg_escape(d->page, words);
    dpti_svg_put(d->page, "\">\n<div class=\"y\">");
    each_tick(d, &d->up, put_y_label);
    dpti_svg_put(d->page,
                 "</div>\n<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" "
                 "aria-hidden=\"true\">",
                 SIZE, SIZE);
    each_tick(d, &d->up, put_grid);
}

static void end_drawing(const diagram *d)
{
    dpti_svg_put(d->page, "\n</svg>\n<div class=\"x\">");
    each_tick(d, &d->across, put_x_label);
    dpti_svg_put(d->page, "</div></div>\n");
}

static void begin_figure(dpti_svg *page, const char *caption)
{
    dpti_svg_put(page, "<figure class=\"chart\"><figcaption>%s</figcaption>\n", caption);
}

static void end_figure(dpti_svg *page)
{
    dpti_svg_put(page, "</figure>\n");
}

/* An entry of a legend: a piece of the line, a name and the last value. */
static void put_key(dpti_svg *page, size_t style, const char *name, double last)
{
    dpti_svg_put(page,
                 "<span class=\"key\"><svg viewBox=\"0 0 28 8\" aria-hidden=\"true\">"
                 "<path class=\"line s%zu\" d=\"M2 4H26\"/></svg>%s <b>%s</b></span>\n",
                 style % N_STYLES, name, DPTI_NUMBER(last, 4));
}

/* ---- Values over the steps ------------------------------------------------------------------- */

typedef struct bin {
    double step, low, mean, high;
    bool empty; /* no value that can be drawn */
} bin;

/* Values of consecutive steps, the first of which has the number before + 1. */
typedef struct series {
    const double *values;
    size_t n, before;
} series;

static size_t bin_begin(size_t b, size_t n_bins, size_t n)
{
    return (size_t)((double)b * (double)n / (double)n_bins);
}

static bin make_bin(const series *s, size_t first, size_t end)
{
    bin b = {.step = (double)s->before + ((double)first + 1 + (double)end) / 2,
             .low = INFINITY,
             .high = -INFINITY};
    double sum = 0;
    size_t n = 0;
    for (size_t i = first; i < end; i++) {
        if (!is_drawn(s->values[i])) continue;
        sum += s->values[i];
        n++;
        b.low = fmin(b.low, s->values[i]);
        b.high = fmax(b.high, s->values[i]);
    }
    b.empty = n == 0;
    b.mean = n > 0 ? sum / (double)n : 0;
    return b;
}

/* Thins the values of the steps; sets the axes.  Returns the number of bins; 0: nothing is drawn.
 */
static size_t make_bins(const series *s, bin *bins, diagram *d)
{
    const size_t n_bins = s->n < BINS ? s->n : BINS;
    double low = INFINITY, high = -INFINITY;
    for (size_t b = 0; b < n_bins; b++) {
        bins[b] = make_bin(s, bin_begin(b, n_bins, s->n), bin_begin(b + 1, n_bins, s->n));
        if (bins[b].empty) continue;
        low = fmin(low, bins[b].low);
        high = fmax(high, bins[b].high);
    }
    if (!(low <= high)) return 0;
    if (low >= 0 && low < 0.5 * high) low = 0; /* if zero is near, the diagram includes it */
    d->across =
        dpti_axis_make((double)s->before + 0.5, (double)(s->before + s->n) + 0.5, X_TICKS, true);
    d->up = dpti_axis_make_round(low, high, Y_TICKS);
    return n_bins;
}

static void put_point(const diagram *d, bool first, double x, double y)
{
    dpti_svg_put(d->page, "%c%s %s", first ? 'M' : 'L', DPTI_PX(across(d, x)), DPTI_PX(up(d, y)));
}

/* Draws n bins without a gap: their range, if they hold several steps, and their mean. */
static void draw_run(const diagram *d, const bin *bins, size_t n, bool thinned)
{
    if (thinned) {
        dpti_svg_put(d->page, "\n<path class=\"band\" d=\"");
        for (size_t i = 0; i < n; i++)
            put_point(d, i == 0, bins[i].step, bins[i].high);
        for (size_t i = n; i-- > 0;)
            put_point(d, false, bins[i].step, bins[i].low);
        dpti_svg_put(d->page, "Z\"/>");
    }
    dpti_svg_put(d->page, "\n<path class=\"%s s0\" d=\"", n == 1 ? "dot" : "line");
    for (size_t i = 0; i < n; i++)
        put_point(d, i == 0, bins[i].step, bins[i].mean);
    dpti_svg_put(d->page, "%s\"/>", n == 1 ? "h0" : "");
}

/* A figure of a value of each step. */
typedef struct step_figure {
    const char *caption, *name;
    int decimals; /* of the values in words */
} step_figure;

static void put_step_words(const step_figure *figure, const series *s, char *words, size_t n_bytes)
{
    snprintf(words, n_bytes, "%s: %s at step %zu, %s at step %zu", figure->caption,
             DPTI_NUMBER(s->values[0], figure->decimals), s->before + 1,
             DPTI_NUMBER(s->values[s->n - 1], figure->decimals), s->before + s->n);
}

static void put_steps(dpti_svg *page, const step_figure *figure, const series *s)
{
    bin bins[BINS];
    char words[256];
    diagram d = {.page = page};
    const size_t n_bins = s->n > 0 ? make_bins(s, bins, &d) : 0;
    begin_figure(page, figure->caption);
    if (n_bins == 0) {
        dpti_svg_put(page, "<p class=\"note\">No step with a finite value.</p>\n");
        end_figure(page);
        return;
    }
    const bool thinned = n_bins < s->n;
    dpti_svg_put(page, "<p class=\"note\">By step.%s</p>\n",
                 thinned ? " The line is the mean of neighbouring steps, the band their range."
                         : "");
    put_step_words(figure, s, words, sizeof words);
    begin_drawing(&d, words);
    for (size_t i = 0, n; i<n_bins; i += n> 0 ? n : 1) {
        for (n = 0; i + n < n_bins && !bins[i + n].empty; n++)
            ;
        if (n > 0) draw_run(&d, bins + i, n, thinned);
    }
    end_drawing(&d);
    end_figure(page);
}

/* ---- Values after each epoch ----------------------------------------------------------------- */

typedef struct epoch_curve {
    const char *name;
    const double *values; /* (n_epochs) */
} epoch_curve;

enum { N_PARTS = 3 };

static double last_of(const double *values, size_t n)
{
    while (n > 0 && !is_drawn(values[n - 1]))
        n--;
    return n > 0 ? values[n - 1] : NAN;
}

static void draw_epochs(const diagram *d, const dpti_report_course *c, const double *values,
                        size_t style)
{
    bool pen_down = false;
    dpti_svg_put(d->page, "\n<path class=\"line s%zu\" d=\"", style);
    for (size_t i = 0; i < c->n_epochs; i++) {
        const bool drawn = is_drawn(values[i]);
        if (drawn) put_point(d, !pen_down, (double)(c->epochs_before + 1 + i), values[i]);
        pen_down = drawn;
    }
    dpti_svg_put(d->page, "\"/>");
    for (size_t i = 0; c->n_epochs <= MOST_MARKS && i < c->n_epochs; i++)
        if (is_drawn(values[i]))
            dpti_svg_put(d->page, "<path class=\"dot s%zu\" d=\"M%s %sh0\"/>", style,
                         DPTI_PX(across(d, (double)(c->epochs_before + 1 + i))),
                         DPTI_PX(up(d, values[i])));
}

/* Sets the axes; false: there is nothing to draw. */
static bool find_axes(const dpti_report_course *c, const epoch_curve *curves, diagram *d)
{
    double low = INFINITY, high = -INFINITY;
    for (size_t k = 0; k < N_PARTS; k++)
        for (size_t i = 0; i < c->n_epochs; i++) {
            if (!is_drawn(curves[k].values[i])) continue;
            low = fmin(low, curves[k].values[i]);
            high = fmax(high, curves[k].values[i]);
        }
    if (!(low <= high)) return false;
    d->across = dpti_axis_make((double)c->epochs_before + 1,
                               (double)(c->epochs_before + c->n_epochs), X_TICKS, true);
    d->up = dpti_axis_make_round(low, high, Y_TICKS);
    return true;
}

static void put_epochs(dpti_svg *page, const dpti_report_course *c, const char *caption,
                       const epoch_curve *curves)
{
    diagram d = {.page = page};
    char words[256] = "";
    size_t n = 0;
    begin_figure(page, caption);
    if (!find_axes(c, curves, &d)) {
        dpti_svg_put(page, "<p class=\"note\">No epoch with a finite value.</p>\n");
        end_figure(page);
        return;
    }
    n += (size_t)snprintf(words, sizeof words, "%s. Last values:", caption);
    dpti_svg_put(page, "<p class=\"legend\">");
    for (size_t k = 0; k < N_PARTS; k++) {
        const double last = last_of(curves[k].values, c->n_epochs);
        if (isnan(last)) continue;
        put_key(page, k, curves[k].name, last);
        if (n < sizeof words)
            n += (size_t)snprintf(words + n, sizeof words - n, " %s %s", curves[k].name,
                                  DPTI_NUMBER(last, 4));
    }
    dpti_svg_put(page, "</p>\n");
    begin_drawing(&d, words);
    for (size_t k = 0; k < N_PARTS; k++)
        draw_epochs(&d, c, curves[k].values, k);
    end_drawing(&d);
    end_figure(page);
}

static void put_value(dpti_svg *page, const char *label, double value)
{
    dpti_svg_put(page, "<td data-label=\"%s\">%s</td>", label,
                 is_drawn(value) ? DPTI_NUMBER(value, 4) : "–");
}

/* The figures of the epochs as a table, for those who want numbers. */
static void put_epoch_table(dpti_svg *page, const dpti_report_course *c)
{
    const epoch_curve columns[] = {{"train loss", c->train_loss},
                                   {"validation loss", c->validation_loss},
                                   {"test loss", c->test_loss},
                                   {"train accuracy", c->train_accuracy},
                                   {"validation accuracy", c->validation_accuracy},
                                   {"test accuracy", c->test_accuracy}};
    const size_t n_columns = c->has_accuracy ? 2 * N_PARTS : N_PARTS;
    const size_t first = c->n_epochs > MOST_EPOCHS ? c->n_epochs - MOST_EPOCHS : 0;
    if (c->n_epochs == 0) return;
    dpti_svg_put(page, "<details><summary>Figures of each epoch</summary>\n");
    if (first > 0)
        dpti_svg_put(page, "<p class=\"note\">The last %d of %zu epochs.</p>\n", MOST_EPOCHS,
                     c->n_epochs);
    dpti_svg_put(page, "<table class=\"cards\"><thead><tr><th scope=\"col\">epoch</th>");
    for (size_t k = 0; k < n_columns; k++)
        if (!isnan(last_of(columns[k].values, c->n_epochs)))
            dpti_svg_put(page, "<th scope=\"col\">%s</th>", columns[k].name);
    dpti_svg_put(page, "</tr></thead><tbody>\n");
    for (size_t i = first; i < c->n_epochs; i++) {
        dpti_svg_put(page, "<tr><th scope=\"row\"><span class=\"narrow\">epoch </span>%zu</th>",
                     c->epochs_before + 1 + i);
        for (size_t k = 0; k < n_columns; k++)
            if (!isnan(last_of(columns[k].values, c->n_epochs)))
                put_value(page, columns[k].name, columns[k].values[i]);
        dpti_svg_put(page, "</tr>\n");
    }
    dpti_svg_put(page, "</tbody></table></details>\n");
}

void dpti_report_put_curves(dpti_svg *page, const dpti_report *report)
{
    const dpti_report_course *c = &report->course;
    const epoch_curve losses[N_PARTS] = {
        {"training", c->train_loss}, {"validation", c->validation_loss}, {"test", c->test_loss}};
    const epoch_curve accuracies[N_PARTS] = {{"training", c->train_accuracy},
                                             {"validation", c->validation_accuracy},
                                             {"test", c->test_accuracy}};
    dpti_svg_put(page, "<section><h2>Curves</h2>\n");
    put_steps(page, &(step_figure){"Loss of each step", "loss", 4},
              &(series){c->loss, c->n_steps, c->steps_before});
    dpti_svg_put(page, "<div class=\"row\">\n");
    if (c->n_epochs > 0) put_epochs(page, c, "Loss after each epoch", losses);
    if (c->n_epochs > 0 && c->has_accuracy)
        put_epochs(page, c, "Accuracy after each epoch", accuracies);
    put_steps(page, &(step_figure){"Learning rate", "learning rate", 8},
              &(series){c->lr, c->n_steps, c->steps_before});
    dpti_svg_put(page, "</div>\n%s",
                 c->n_epochs > 0 ? "" : "<p class=\"note\">No epoch was completed.</p>\n");
    put_epoch_table(page, c);
    dpti_svg_put(page, "</section>\n");
}

/* ---- Shares ---------------------------------------------------------------------------------- */

/* The parts of the samples that the devices had in bins of steps, and in all steps. */
typedef struct share_bins {
    size_t n_bins;
    double *parts; /* (n_devices, n_bins + 1): from 0 to 1; the last one is of all steps */
} share_bins;

static void add_samples(const dpti_report *report, const share_bins *s, size_t step, size_t to)
{
    for (size_t d = 0; d < report->n_devices; d++) {
        const double n = (double)report->course.shards[step * report->n_devices + d];
        s->parts[d * (s->n_bins + 1) + to] += n;
        s->parts[d * (s->n_bins + 1) + s->n_bins] += n;
    }
}

/* Divides the samples of a bin by those of all devices. */
static void divide(const dpti_report *report, const share_bins *s, size_t of)
{
    double all = 0;
    for (size_t d = 0; d < report->n_devices; d++)
        all += s->parts[d * (s->n_bins + 1) + of];
    for (size_t d = 0; d < report->n_devices && all > 0; d++)
        s->parts[d * (s->n_bins + 1) + of] /= all;
}

/* Returns false if there is no memory.  The caller frees out->parts. */
static bool make_shares(const dpti_report *report, share_bins *out)
{
    const size_t n = report->course.n_steps;
    const share_bins s = {.n_bins = n < BINS ? n : BINS,
                          .parts = calloc(report->n_devices * (BINS + 1), sizeof *s.parts)};
    if (!s.parts) return false;
    for (size_t b = 0; b < s.n_bins; b++)
        for (size_t i = bin_begin(b, s.n_bins, n); i < bin_begin(b + 1, s.n_bins, n); i++)
            add_samples(report, &s, i, b);
    for (size_t b = 0; b <= s.n_bins; b++)
        divide(report, &s, b);
    *out = s;
    return true;
}

static void put_strip(dpti_svg *page, const char *id, const double *parts, size_t n_bins)
{
    const double all = parts[n_bins], last = parts[n_bins - 1];
    dpti_svg_put(page, "<div class=\"strip\"><div class=\"who\">");
    dpti_svg_escape(page, id);
    dpti_svg_put(page, " <b>%s %%</b></div><div class=\"strip-plot\" role=\"img\" aria-label=\"",
                 DPTI_NUMBER(100 * all, 1));
    dpti_svg_escape(page, id);
    dpti_svg_put(page,
                 ": %s %% of all samples, %s %% at the end\">"
                 "<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" aria-hidden=\"true\">"
                 "<path class=\"area\" d=\"M0 %d",
                 DPTI_NUMBER(100 * all, 1), DPTI_NUMBER(100 * last, 1), SIZE, SIZE, SIZE);
    for (size_t b = 0; b < n_bins; b++)
        dpti_svg_put(page, "V%sH%s", DPTI_PX(SIZE * (1 - parts[b])),
                     DPTI_PX(SIZE * (double)(b + 1) / (double)n_bins));
    dpti_svg_put(page, "V%dZ\"/><path class=\"grid\" d=\"M0 %dH%d\"/></svg></div></div>\n", SIZE,
                 SIZE / 2, SIZE);
}

/* The marks of the steps whose shares changed, one for each bin that has any. */
static size_t put_marks(dpti_svg *page, const dpti_report_course *c)
{
    const size_t n_bins = c->n_steps < BINS ? c->n_steps : BINS;
    size_t n = 0;
    dpti_svg_put(page, "<div class=\"strip\"><div class=\"who\">shares changed</div>"
                       "<div class=\"strip-plot marks\">");
    for (size_t b = 0; b < n_bins; b++) {
        const size_t before = n;
        const size_t first = bin_begin(b, n_bins, c->n_steps);
        for (size_t i = first; i < bin_begin(b + 1, n_bins, c->n_steps); i++)
            n += c->rebalanced[i];
        if (n > before)
            dpti_svg_put(page, "<i style=\"left:%s%%\"></i>",
                         DPTI_PX(100 * (double)first / (double)c->n_steps));
    }
    dpti_svg_put(page, "</div></div>\n");
    return n;
}

void dpti_report_put_shares(dpti_svg *page, const dpti_report *report)
{
    const dpti_report_course *c = &report->course;
    if (report->n_devices < 2 || c->n_steps == 0) return;
    share_bins shares;
    if (!make_shares(report, &shares)) {
        page->failed = true;
        return;
    }
    const double low = (double)c->steps_before + 0.5;
    const diagram d = {.page = page,
                       .across = dpti_axis_make(low, low + (double)c->n_steps, X_TICKS, true)};
    dpti_svg_put(page,
                 "<section><h2>Shares over time</h2>\n<p class=\"note\">By step: the part of the "
                 "samples that each device computed, from 0 at the bottom of its strip to 100 %% "
                 "at the top. The line in the middle is 50 %%. Behind a name is the part of all "
                 "samples.</p>\n<div class=\"strips\">\n");
    for (size_t i = 0; i < report->n_devices; i++)
        put_strip(page, report->devices[i].id, shares.parts + i * (shares.n_bins + 1),
                  shares.n_bins);
    free(shares.parts);
    const size_t n = put_marks(page, c);
    dpti_svg_put(page,
                 "<div class=\"strip\"><div class=\"who\"></div><div class=\"strip-plot axis\">"
                 "<div class=\"x\">");
    each_tick(&d, &d.across, put_x_label);
    dpti_svg_put(page,
                 "</div></div></div>\n</div>\n<p class=\"note\">Shares changed %zu time%s.</p>\n"
                 "</section>\n",
                 n, n == 1 ? "" : "s");
}
