/* The layout of the picture of a training run. svg.c writes the SVG. */
#include "io/plot.h"

#include "io/file.h"
#include "io/svg.h"

#include <math.h>
#include <string.h>

enum {
    LOSS_BINS = 500,
    SHARE_BINS = 500,
    NARROW_SHARE_BINS = 250,
    MOST_MARKERS = 40,
    MOST_LABEL = 28, /* characters of a device's name */
    N_COLOURS = 8,
};

/* Larger losses are drawn as if they were not finite, because differences of losses must be
   finite. */
static const double huge_loss = 1e100;

/* Most colour-blind people can tell these colours apart; neighbours differ in lightness. */
static const char *const colours[N_COLOURS] = {"#2f6db5", "#e58a2e", "#2e9b6f", "#c4547d",
                                               "#6fb1dd", "#8d6cc0", "#a8983a", "#7c8794"};

static const char style[] =
    "<style>\n"
    "text{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#24292f}\n"
    ".title{font-size:20px;font-weight:600}\n"
    ".subtitle{font-size:13px;fill:#57606a}\n"
    ".heading{font-size:14px;font-weight:600}\n"
    ".note,.tick{font-size:12px;fill:#57606a}\n"
    ".end{text-anchor:end}.middle{text-anchor:middle}\n"
    ".grid{stroke:#e3e7ec;fill:none}.axis{stroke:#8c959f;fill:none}\n"
    ".rebalance{fill:#24292f}\n"
    ".epoch{stroke:#d0d7de;stroke-dasharray:2 3;fill:none}\n"
    ".line{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}\n"
    ".band{stroke:none;opacity:.22}\n"
    "</style>\n";

/* ---- Bins: many steps to one point ----------------------------------------------------------- */

/* The steps of bin b of n are first to last, counted from 0.  A bin is never empty, because n <=
   n_steps. */
static size_t bin_first(size_t b, size_t n, size_t n_steps)
{
    return (size_t)((double)b * (double)n_steps / (double)n);
}

static size_t bin_last(size_t b, size_t n, size_t n_steps)
{
    return b + 1 == n ? n_steps - 1 : bin_first(b + 1, n, n_steps) - 1;
}

typedef struct bin {
    double step; /* the middle step, counted from 1 */
    double low, mean, high;
    bool empty; /* no finite loss */
} bin;

static bin make_bin(const dpti_plot *plot, size_t first, size_t last)
{
    const double *loss = plot->loss;
    bin b = {.step = (double)plot->steps_before + 1 + ((double)first + (double)last) / 2,
             .low = INFINITY,
             .high = -INFINITY};
    double sum = 0;
    size_t n = 0;
    for (size_t i = first; i <= last; i++) {
        if (!(fabs(loss[i]) < huge_loss)) continue;
        sum += loss[i];
        n++;
        b.low = fmin(b.low, loss[i]);
        b.high = fmax(b.high, loss[i]);
    }
    b.empty = n == 0;
    b.mean = n ? sum / (double)n : 0;
    return b;
}

/* The x position between step i and step i + 1 of the picture, counted from 0. */
static double between_steps(const dpti_frame *frame, const dpti_plot *plot, size_t i)
{
    return dpti_frame_x(frame, (double)(plot->steps_before + i) + 0.5);
}

static dpti_axis step_axis(const dpti_plot *plot, int n_ticks)
{
    const size_t before = plot->steps_before;
    return dpti_axis_make((double)before + 0.5, (double)(before + plot->n_steps) + 0.5, n_ticks,
                          true);
}

/* ---- Legends --------------------------------------------------------------------------------- */

/* A row of coloured squares with text, which wraps at the panel's edge. */
typedef struct legend {
    double left, right; /* of the panel */
    double x, y;        /* position of the next entry */
    size_t n_rows, most_rows;
    size_t n_left_out;
} legend;

/* Estimates the width of a text in 12 px type, which is exact enough for a legend. */
static double text_width(const char *text)
{
    double n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return 6.9 * n;
}

static void legend_entry(dpti_svg *svg, legend *l, const char *colour, const char *text)
{
    const double width = 15 + text_width(text);
    if (l->n_left_out == 0 && l->x + width > l->right && l->x > l->left) {
        if (l->n_rows == l->most_rows) {
            l->n_left_out++;
            return;
        }
        l->n_rows++;
        l->x = l->left;
        l->y += 18;
    } else if (l->n_left_out > 0) {
        l->n_left_out++;
        return;
    }
    dpti_svg_put(svg, "<rect x=\"%s\" y=\"%s\" width=\"10\" height=\"10\" rx=\"2\" fill=\"%s\"/>\n",
                 DPTI_PX(l->x), DPTI_PX(l->y - 9), colour);
    dpti_svg_text(svg, (dpti_point){l->x + 15, l->y}, "note", text);
    l->x += width + 14;
}

/* ---- Loss ------------------------------------------------------------------------------------ */

static void draw_nothing(dpti_svg *svg, const dpti_frame *frame, const char *why)
{
    dpti_svg_text(svg, (dpti_point){frame->x + frame->width / 2, frame->y + frame->height / 2},
                  "note middle", why);
}

/* Draws the range of losses in a run of bins without a gap. */
static void draw_band(dpti_svg *svg, const dpti_frame *frame, const bin *bins, size_t n)
{
    dpti_svg_put(svg, "<path class=\"band\" fill=\"%s\" d=\"", colours[0]);
    for (size_t i = 0; i < n; i++)
        dpti_svg_put(svg, "%c%s %s", i ? 'L' : 'M', DPTI_PX(dpti_frame_x(frame, bins[i].step)),
                     DPTI_PX(dpti_frame_y(frame, bins[i].high)));
    for (size_t i = n; i-- > 0;)
        dpti_svg_put(svg, "L%s %s", DPTI_PX(dpti_frame_x(frame, bins[i].step)),
                     DPTI_PX(dpti_frame_y(frame, bins[i].low)));
    dpti_svg_put(svg, "Z\"/>\n");
}

static void draw_marker(dpti_svg *svg, double x, double y, const char *colour)
{
    dpti_svg_put(svg, "<circle cx=\"%s\" cy=\"%s\" r=\"3\" fill=\"%s\"/>\n", DPTI_PX(x), DPTI_PX(y),
                 colour);
}

static void draw_mean(dpti_svg *svg, const dpti_frame *frame, const bin *bins, size_t n)
{
    if (n == 1) {
        draw_marker(svg, dpti_frame_x(frame, bins[0].step), dpti_frame_y(frame, bins[0].mean),
                    colours[0]);
        return;
    }
    dpti_svg_put(svg, "<path class=\"line\" stroke=\"%s\" d=\"", colours[0]);
    for (size_t i = 0; i < n; i++)
        dpti_svg_put(svg, "%c%s %s", i ? 'L' : 'M', DPTI_PX(dpti_frame_x(frame, bins[i].step)),
                     DPTI_PX(dpti_frame_y(frame, bins[i].mean)));
    dpti_svg_put(svg, "\"/>\n");
}

static void draw_epochs(dpti_svg *svg, const dpti_frame *frame, const dpti_plot *plot)
{
    if (plot->epoch[plot->n_steps - 1] - plot->epoch[0] > MOST_MARKERS) return;
    for (size_t i = 1; i < plot->n_steps; i++)
        if (plot->epoch[i] != plot->epoch[i - 1])
            dpti_svg_put(svg, "<path class=\"epoch\" d=\"M%s %sv%s\"/>\n",
                         DPTI_PX(between_steps(frame, plot, i)), DPTI_PX(frame->y),
                         DPTI_PX(frame->height));
}

static void draw_loss(dpti_svg *svg, dpti_frame frame, const dpti_plot *plot)
{
    dpti_svg_text(svg, (dpti_point){frame.x - 44, frame.y - 16}, "heading", "Loss per step");
    const size_t n_bins = plot->n_steps < LOSS_BINS ? plot->n_steps : LOSS_BINS;
    bin bins[LOSS_BINS];
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < n_bins; i++) {
        bins[i] =
            make_bin(plot, bin_first(i, n_bins, plot->n_steps), bin_last(i, n_bins, plot->n_steps));
        if (bins[i].empty) continue;
        low = fmin(low, bins[i].low);
        high = fmax(high, bins[i].high);
    }
    if (!(low <= high)) {
        draw_nothing(svg, &frame, "no step with a finite loss");
        return;
    }
    if (low >= 0 && low < 0.5 * high) low = 0; /* if zero is near, the picture includes it */
    frame.across = step_axis(plot, 10);
    frame.up = dpti_axis_make_round(low, high, 6);
    dpti_svg_frame(svg, &frame);
    draw_epochs(svg, &frame, plot);
    if (n_bins < plot->n_steps)
        dpti_svg_text(svg, (dpti_point){frame.x + frame.width, frame.y - 16}, "note end",
                      "line: mean of neighbouring steps, band: their range");
    for (size_t i = 0, n; i < n_bins; i += n) {
        for (n = 0; i + n < n_bins && !bins[i + n].empty; n++) {
        }
        if (n == 0) {
            n = 1;
            continue;
        }
        if (n_bins < plot->n_steps) draw_band(svg, &frame, bins + i, n);
        draw_mean(svg, &frame, bins + i, n);
    }
}

/* ---- Accuracy -------------------------------------------------------------------------------- */

/* The x position of the end of the i-th epoch in the picture, from 0. */
static double epoch_x(const dpti_frame *frame, const dpti_plot *plot, size_t i)
{
    return dpti_frame_x(frame, (double)(plot->epochs_before + 1 + i));
}

/* A value of each epoch, NaN where there is none. */
typedef struct curve {
    const char *name, *colour;
    const double *values; /* (n_epochs) of the plot */
} curve;

static void draw_curve(dpti_svg *svg, const dpti_frame *frame, const dpti_plot *plot,
                       const curve *drawn)
{
    const size_t n = plot->n_epochs;
    const double *values = drawn->values;
    bool pen_down = false;
    dpti_svg_put(svg, "<path class=\"line\" stroke=\"%s\" d=\"", drawn->colour);
    for (size_t i = 0; i < n; i++) {
        if (isfinite(values[i]))
            dpti_svg_put(svg, "%c%s %s", pen_down ? 'L' : 'M', DPTI_PX(epoch_x(frame, plot, i)),
                         DPTI_PX(dpti_frame_y(frame, values[i])));
        pen_down = isfinite(values[i]);
    }
    dpti_svg_put(svg, "\"/>\n");
    for (size_t i = 0; n <= MOST_MARKERS && i < n; i++)
        if (isfinite(values[i]))
            draw_marker(svg, epoch_x(frame, plot, i), dpti_frame_y(frame, values[i]),
                        drawn->colour);
}

/* The legend's text for a curve: its name and its last value. */
static void curve_entry(dpti_svg *svg, legend *l, const curve *drawn, size_t n)
{
    const double *values = drawn->values;
    while (n > 0 && !isfinite(values[n - 1]))
        n--;
    if (n == 0) return;
    char number[DPTI_NUMBER_BYTES], text[DPTI_NUMBER_BYTES + 16];
    snprintf(text, sizeof text, "%s %s", drawn->name, dpti_svg_number(number, values[n - 1], 4));
    legend_entry(svg, l, drawn->colour, text);
}

static void draw_accuracy(dpti_svg *svg, dpti_frame frame, const dpti_plot *plot)
{
    const curve curves[] = {
        {"training", colours[0], plot->train_accuracy},
        {"test", colours[1], plot->test_accuracy},
        {"validation", colours[2], plot->validation_accuracy},
    };
    enum { N_CURVES = sizeof curves / sizeof *curves };
    dpti_svg_text(svg, (dpti_point){frame.x - 44, frame.y - 36}, "heading", "Accuracy per epoch");
    double low = INFINITY, high = -INFINITY;
    for (size_t k = 0; k < N_CURVES; k++)
        for (size_t i = 0; i < plot->n_epochs; i++) {
            low = fmin(low, curves[k].values[i]);
            high = fmax(high, curves[k].values[i]);
        }
    if (!(low <= high && isfinite(low) && isfinite(high))) {
        draw_nothing(svg, &frame, "no epoch completed");
        return;
    }
    legend l = {.left = frame.x - 44, .right = frame.x + frame.width, .most_rows = 1, .n_rows = 1};
    l.x = l.left;
    l.y = frame.y - 16;
    for (size_t k = 0; k < N_CURVES; k++)
        curve_entry(svg, &l, &curves[k], plot->n_epochs);
    frame.across = dpti_axis_make((double)plot->epochs_before + 1,
                                  (double)(plot->epochs_before + plot->n_epochs), 8, true);
    frame.up = dpti_axis_make_round(low, high, 6);
    dpti_svg_frame(svg, &frame);
    for (size_t k = 0; k < N_CURVES; k++)
        draw_curve(svg, &frame, plot, &curves[k]);
}

/* ---- Shards ---------------------------------------------------------------------------------- */

/* Returns whether the plot needs its full width; the shard of a single device is a straight
   line. */
static bool is_wide(const dpti_plot *plot)
{
    return plot->n_devices > 1;
}

static size_t shard_bins(const dpti_plot *plot)
{
    const size_t most = is_wide(plot) ? SHARE_BINS : NARROW_SHARE_BINS;
    return plot->n_steps < most ? plot->n_steps : most;
}

/* Returns the samples that one device computed in the steps first to last. */
static double device_samples(const dpti_plot *plot, size_t device, size_t first, size_t last)
{
    double sum = 0;
    for (size_t i = first; i <= last; i++)
        sum += (double)plot->shards[i * plot->n_devices + device];
    return sum;
}

static double all_samples(const dpti_plot *plot, size_t first, size_t last)
{
    double sum = 0;
    for (size_t d = 0; d < plot->n_devices; d++)
        sum += device_samples(plot, d, first, last);
    return sum;
}

/* A height for each bin of steps, and whether the staircase goes from right to left. */
typedef struct stairs {
    const double *height; /* (n_bins) */
    size_t n_bins;
    bool back;
} stairs;

/* Draws a staircase.  A bin extends from half a step before its first
   step to half a step after its last one.  Stairs of equal height are drawn as one. */
static void draw_stairs(dpti_svg *svg, const dpti_frame *frame, const dpti_plot *plot,
                        const stairs *drawn)
{
    const double *height = drawn->height;
    const size_t n_bins = drawn->n_bins;
    const bool back = drawn->back;
    for (size_t i = 0; i < n_bins; i++) {
        const size_t b = back ? n_bins - 1 - i : i;
        const double left = between_steps(frame, plot, bin_first(b, n_bins, plot->n_steps));
        const double right = between_steps(frame, plot, bin_last(b, n_bins, plot->n_steps) + 1);
        const bool starts = i == 0 || height[b] != height[back ? b + 1 : b - 1];
        const bool ends = i + 1 == n_bins || height[b] != height[back ? b - 1 : b + 1];
        const double y = dpti_frame_y(frame, height[b]);
        if (starts)
            dpti_svg_put(svg, "%c%s %s", i == 0 && !back ? 'M' : 'L', DPTI_PX(back ? right : left),
                         DPTI_PX(y));
        if (ends) dpti_svg_put(svg, "H%s", DPTI_PX(back ? left : right));
    }
}

/* A device as the legend shows it: its id, its colour and its part of all samples in percent. */
typedef struct device_entry {
    const char *id, *colour;
    double percent;
} device_entry;

static void shard_entry(dpti_svg *svg, legend *l, const device_entry *device)
{
    const char *id = device->id;
    int length = 0, n = 0;
    while (id[length] && (n < MOST_LABEL || ((unsigned char)id[length] & 0xc0) == 0x80)) {
        n += ((unsigned char)id[length] & 0xc0) != 0x80;
        length++;
    }
    char number[DPTI_NUMBER_BYTES], text[4 * MOST_LABEL + DPTI_NUMBER_BYTES + 16];
    snprintf(text, sizeof text, "%.*s%s %s %%", length, id, id[length] ? "…" : "",
             dpti_svg_number(number, device->percent, 1));
    legend_entry(svg, l, device->colour, text);
}

/* Draws one area per device, on top of those before it. */
static void draw_areas(dpti_svg *svg, const dpti_frame *frame, const dpti_plot *plot)
{
    const size_t n_steps = plot->n_steps;
    const size_t n_bins = shard_bins(plot);
    double all[SHARE_BINS], lower[SHARE_BINS] = {0}, upper[SHARE_BINS];
    for (size_t b = 0; b < n_bins; b++)
        all[b] = all_samples(plot, bin_first(b, n_bins, n_steps), bin_last(b, n_bins, n_steps));
    for (size_t d = 0; d < plot->n_devices; d++) {
        for (size_t b = 0; b < n_bins; b++) {
            const double own = device_samples(plot, d, bin_first(b, n_bins, n_steps),
                                              bin_last(b, n_bins, n_steps));
            upper[b] = lower[b] + (all[b] > 0 ? own / all[b] : 0);
        }
        dpti_svg_put(svg, "<path fill=\"%s\" d=\"", colours[d % N_COLOURS]);
        draw_stairs(svg, frame, plot, &(stairs){upper, n_bins, false});
        draw_stairs(svg, frame, plot, &(stairs){lower, n_bins, true});
        dpti_svg_put(svg, "Z\"/>\n");
        memcpy(lower, upper, n_bins * sizeof *lower);
    }
}

/* Draws a mark above the areas for each bin in which shards changed. */
static void draw_rebalances(dpti_svg *svg, const dpti_frame *frame, const dpti_plot *plot)
{
    const size_t n_bins = shard_bins(plot);
    for (size_t b = 0; b < n_bins; b++) {
        const size_t last = bin_last(b, n_bins, plot->n_steps);
        size_t i = bin_first(b, n_bins, plot->n_steps);
        while (i <= last && !plot->rebalanced[i])
            i++;
        if (i <= last)
            dpti_svg_put(svg, "<path class=\"rebalance\" d=\"M%s %sl-3.5 -6h7Z\"/>\n",
                         DPTI_PX(between_steps(frame, plot, i)), DPTI_PX(frame->y - 1));
    }
}

/* Adds a note: the devices that the legend omits, and the number of changes if several fall into
   one mark. */
static void shard_note(dpti_svg *svg, const dpti_frame *frame, const dpti_plot *plot,
                       size_t n_left_out)
{
    char words[96] = "", more[48] = "";
    size_t n = 0;
    for (size_t i = 0; is_wide(plot) && plot->rebalanced && i < plot->n_steps; i++)
        n += plot->rebalanced[i];
    if (n_left_out > 0) snprintf(more, sizeof more, "%sand %zu more", n ? ", " : "", n_left_out);
    if (n > 0)
        snprintf(words, sizeof words, "marks: %zu rebalance%s%s", n, n == 1 ? "" : "s", more);
    if (n > 0 || n_left_out > 0)
        dpti_svg_text(svg, (dpti_point){frame->x + frame->width, frame->y - 36}, "note end",
                      n ? words : more);
}

static void draw_shards(dpti_svg *svg, dpti_frame frame, const dpti_plot *plot)
{
    dpti_svg_text(svg, (dpti_point){frame.x - 44, frame.y - 36}, "heading", "Shard of each device");
    if (plot->n_steps == 0 || plot->n_devices == 0) {
        draw_nothing(svg, &frame, "no step");
        return;
    }
    legend l = {.left = frame.x - 44, .right = frame.x + frame.width, .most_rows = 3, .n_rows = 1};
    l.x = l.left;
    l.y = frame.y - 16;
    const double all = all_samples(plot, 0, plot->n_steps - 1);
    for (size_t d = 0; d < plot->n_devices; d++) {
        const double own = device_samples(plot, d, 0, plot->n_steps - 1);
        shard_entry(svg, &l,
                    &(device_entry){.id = plot->devices[d],
                                    .colour = colours[d % N_COLOURS],
                                    .percent = all > 0 ? 100 * own / all : 0});
    }
    shard_note(svg, &frame, plot, l.n_left_out);
    const double lowered = 18 * (double)(l.n_rows - 1);
    frame.y += lowered;
    frame.height -= lowered;
    frame.across = step_axis(plot, is_wide(plot) ? 10 : 7);
    frame.up = dpti_axis_make(0, 1, 4, false);
    frame.up.step = 0.25;
    frame.unit = " %";
    frame.unit_factor = 100;
    draw_areas(svg, &frame, plot);
    dpti_svg_frame(svg, &frame);
    if (is_wide(plot)) draw_epochs(svg, &frame, plot);
    if (is_wide(plot) && plot->rebalanced) draw_rebalances(svg, &frame, plot);
}

/* ---- The picture ----------------------------------------------------------------------------- */

static void draw_head(dpti_svg *svg, const char *title, int height)
{
    dpti_svg_put(svg,
                 "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"960\" height=\"%d\" "
                 "viewBox=\"0 0 960 %d\" role=\"img\">\n%s<title>",
                 height, height, style);
    dpti_svg_escape(svg, title);
    dpti_svg_put(svg, "</title>\n<rect width=\"960\" height=\"%d\" rx=\"8\" fill=\"#ffffff\"/>\n",
                 height);
}

/* With several devices the shards are drawn below the losses, with the same axis of steps. */
static void draw(dpti_svg *svg, const dpti_plot *plot)
{
    const char *title = plot->title ? plot->title : "dptrain";
    const bool wide = is_wide(plot);
    draw_head(svg, title, wide ? 920 : 660);
    dpti_svg_text(svg, (dpti_point){32, 40}, "title", title);
    if (plot->subtitle) dpti_svg_text(svg, (dpti_point){32, 62}, "subtitle", plot->subtitle);

    const dpti_frame loss = {
        .x = 76, .y = 116, .width = 852, .height = 200, .unit = "", .unit_factor = 1};
    draw_loss(svg, loss, plot);
    const dpti_frame accuracy = {.x = 76,
                                 .y = wide ? 700 : 420,
                                 .width = wide ? 852 : 380,
                                 .height = wide ? 170 : 190,
                                 .unit = "",
                                 .unit_factor = 1};
    draw_accuracy(svg, accuracy, plot);
    const dpti_frame shards = {.x = wide ? 76 : 548,
                               .y = 420,
                               .width = wide ? 852 : 380,
                               .height = 190,
                               .unit = "",
                               .unit_factor = 1};
    draw_shards(svg, shards, plot);
    dpti_svg_put(svg, "</svg>\n");
}

dpt_status dpti_plot_write(const char *path, const dpti_plot *plot, dpt_error *error)
{
    dpti_svg svg = {0};
    dpti_new_file file;
    draw(&svg, plot);
    dpt_status status = svg.failed
                            ? DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the picture %s", path)
                            : dpti_new_file_create(path, &file, error);
    if (status == DPT_OK) {
        status = dpti_new_file_write(&file, svg.text, svg.length, error);
        if (status == DPT_OK)
            status = dpti_new_file_commit(&file, error);
        else
            dpti_new_file_discard(&file);
    }
    dpti_svg_free(&svg);
    return status;
}
