/* What the model takes samples for: a table of classes against classes, figures of each class, and
   samples with large losses. */
#include "io/png.h"
#include "io/report_parts.h"

#include <math.h>
#include <stdlib.h>

enum {
    MOST_CELLS = 20,   /* classes of a matrix */
    MOST_PAIRS = 25,   /* confused pairs that are listed where there are more classes */
    MOST_CLASSES = 50, /* rows of the table of classes */
};

static void put_class(dpti_svg *page, const dpti_report_classes *c, size_t i)
{
    if (c->names && i < c->n_names)
        dpti_svg_escape(page, c->names[i]);
    else
        dpti_svg_put(page, "%zu", i);
}

static double part(size_t of, size_t all)
{
    return all > 0 ? (double)of / (double)all : 0;
}

/* ---- The matrix ------------------------------------------------------------------------------ */

static void put_cell(dpti_svg *page, const dpti_report_classes *c, size_t label, size_t guess)
{
    const size_t n = c->counts.confusion[label * c->counts.n_classes + guess];
    const double p = part(n, c->counts.samples[label]);
    /* A few confusions should be seen, so their colour grows with the root. */
    const double tint = label == guess ? p : sqrt(p);
    dpti_svg_put(page, "<td class=\"%s\" style=\"--p:%s\" title=\"",
                 label == guess ? "hit" : "miss", DPTI_NUMBER(tint, 3));
    put_class(page, c, label);
    dpti_svg_put(page, " taken for ");
    put_class(page, c, guess);
    dpti_svg_put(page, ": %zu, %s %%\">", n, DPTI_NUMBER(100 * p, 1));
    if (n > 0)
        dpti_svg_put(page, "%zu</td>", n);
    else
        dpti_svg_put(page, "<span class=\"none\">0</span></td>");
}

static void put_matrix(dpti_svg *page, const dpti_report_classes *c)
{
    dpti_svg_put(page,
                 "<p class=\"note\">A row has the samples of a class, a column those that are "
                 "taken for a class. Right answers are framed.</p>\n"
                 "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
                 "aria-label=\"Confusion matrix\"><table class=\"confusion\"><thead><tr><td></td>");
    for (size_t k = 0; k < c->counts.n_classes; k++) {
        dpti_svg_put(page, "<th scope=\"col\"><abbr title=\"");
        put_class(page, c, k);
        dpti_svg_put(page, "\">%zu</abbr></th>", k);
    }
    dpti_svg_put(page, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < c->counts.n_classes; i++) {
        dpti_svg_put(page, "<tr><th scope=\"row\"><span>%zu</span> ", i);
        if (c->names && i < c->n_names) put_class(page, c, i);
        dpti_svg_put(page, "</th>");
        for (size_t k = 0; k < c->counts.n_classes; k++)
            put_cell(page, c, i, k);
        dpti_svg_put(page, "</tr>\n");
    }
    dpti_svg_put(page, "</tbody></table></div>\n");
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

typedef struct confused {
    size_t label, guess, n;
} confused;

/* Keeps the most frequent confusions, in order; returns their number. */
static size_t find_pairs(const dpti_report_classes *c, confused *pairs)
{
    size_t n_pairs = 0;
    for (size_t i = 0; i < c->counts.n_classes; i++)
        for (size_t k = 0; k < c->counts.n_classes; k++) {
            const confused one = {i, k, c->counts.confusion[i * c->counts.n_classes + k]};
            if (i == k || one.n == 0) continue;
            size_t at = n_pairs < MOST_PAIRS ? n_pairs++ : MOST_PAIRS;
            for (; at > 0 && pairs[at - 1].n < one.n; at--)
                if (at < MOST_PAIRS) pairs[at] = pairs[at - 1];
            if (at < MOST_PAIRS) pairs[at] = one;
        }
    return n_pairs;
}

static void put_pairs(dpti_svg *page, const dpti_report_classes *c)
{
    confused pairs[MOST_PAIRS];
    const size_t n = find_pairs(c, pairs);
    if (n == 0) {
        dpti_svg_put(page, "<p>No sample is taken for another class.</p>\n");
        return;
    }
    dpti_svg_put(
        page,
        "<p class=\"note\">The classes that are confused most, of %zu.</p>\n"
        "<table class=\"figures\"><thead><tr><th scope=\"col\">class</th><th scope=\"col\">"
        "taken for</th><th scope=\"col\">samples</th><th scope=\"col\">part of its "
        "class</th></tr></thead><tbody>\n",
        c->counts.n_classes);
    for (size_t i = 0; i < n; i++) {
        dpti_svg_put(page, "<tr><th scope=\"row\">");
        put_class(page, c, pairs[i].label);
        dpti_svg_put(page, "</th><td data-label=\"taken for\">");
        put_class(page, c, pairs[i].guess);
        dpti_svg_put(page,
                     "</td><td data-label=\"samples\">%zu</td><td data-label=\"part of its class\">"
                     "%s %%</td></tr>\n",
                     pairs[i].n,
                     DPTI_NUMBER(100 * part(pairs[i].n, c->counts.samples[pairs[i].label]), 1));
    }
    dpti_svg_put(page, "</tbody></table>\n");
}

/* ---- Each class ------------------------------------------------------------------------------ */

static void put_part(dpti_svg *page, const char *label, bool known, double value)
{
    if (known)
        dpti_svg_put(page,
                     "<td data-label=\"%s\"><span class=\"bar\" style=\"--p:%s\"></span>%s</td>",
                     label, DPTI_NUMBER(value, 3), DPTI_NUMBER(value, 3));
    else
        dpti_svg_put(page, "<td data-label=\"%s\">–</td>", label);
}

/* Chooses the classes of the table: all, or those with the lowest F1.  Returns their number. */
static size_t choose_classes(const dpti_report_classes *c, size_t chosen[MOST_CLASSES])
{
    size_t n = 0;
    for (size_t i = 0; i < c->counts.n_classes; i++) {
        if (c->counts.n_classes <= MOST_CLASSES) {
            chosen[n++] = i;
            continue;
        }
        if (c->counts.samples[i] == 0) continue;
        size_t at = n < MOST_CLASSES ? n++ : MOST_CLASSES;
        const double f1 = dpti_class_figures_of(&c->counts, i).f1;
        for (; at > 0 && dpti_class_figures_of(&c->counts, chosen[at - 1]).f1 > f1; at--)
            if (at < MOST_CLASSES) chosen[at] = chosen[at - 1];
        if (at < MOST_CLASSES) chosen[at] = i;
    }
    return n;
}

static void put_each_class(dpti_svg *page, const dpti_report_classes *c)
{
    size_t chosen[MOST_CLASSES];
    const size_t n = choose_classes(c, chosen);
    dpti_svg_put(page,
                 "<h3>Each class</h3>\n<p class=\"note\">%sPrecision: the part of the samples "
                 "taken for the class that are of it. Recall: the part of its samples that are "
                 "taken for it. F1: their harmonic mean.</p>\n<table class=\"figures\"><thead><tr>",
                 n < c->counts.n_classes ? "The classes with the lowest F1. " : "");
    static const char *const heads[] = {"class", "samples", "precision", "recall", "F1"};
    for (size_t k = 0; k < sizeof heads / sizeof *heads; k++)
        dpti_svg_put(page, "<th scope=\"col\">%s</th>", heads[k]);
    dpti_svg_put(page, "</tr></thead><tbody>\n");
    for (size_t k = 0; k < n; k++) {
        const size_t i = chosen[k];
        dpti_svg_put(page, "<tr><th scope=\"row\">");
        put_class(page, c, i);
        dpti_svg_put(page, "</th><td data-label=\"samples\">%zu</td>", c->counts.samples[i]);
        const dpti_class_figures f = dpti_class_figures_of(&c->counts, i);
        put_part(page, "precision", c->counts.predicted[i] > 0, f.precision);
        put_part(page, "recall", c->counts.samples[i] > 0, f.recall);
        put_part(page, "F1", c->counts.samples[i] + c->counts.predicted[i] > 0, f.f1);
        dpti_svg_put(page, "</tr>\n");
    }
    dpti_svg_put(page, "</tbody></table>\n");
}

/* ---- Samples --------------------------------------------------------------------------------- */

static void put_picture(dpti_svg *page, const dpti_report_classes *c, const dpti_report_sample *s)
{
    char *text = s->png.n_bytes > 0 ? dpti_base64(s->png.bytes, s->png.n_bytes) : NULL;
    if (s->png.n_bytes > 0 && !text) page->failed = true;
    if (!text) return;
    dpti_svg_put(page, "<img src=\"data:image/png;base64,%s\" alt=\"sample %zu, ", text, s->index);
    put_class(page, c, s->label);
    dpti_svg_put(page, "\" class=\"%s\">", s->height <= 64 && s->width <= 64 ? "small" : "large");
    free(text);
}

static void put_sample(dpti_svg *page, const dpti_report_classes *c, const dpti_report_sample *s)
{
    dpti_svg_put(page, "<li>");
    put_picture(page, c, s);
    dpti_svg_put(page, "<b>");
    put_class(page, c, s->label);
    dpti_svg_put(page, "</b><span>%s ", s->label == s->predicted ? "recognised," : "taken for");
    if (s->label != s->predicted) put_class(page, c, s->predicted);
    dpti_svg_put(page, " %s %%</span><span class=\"note\">", DPTI_NUMBER(100 * s->guess, 1));
    if (s->label != s->predicted)
        dpti_svg_put(page, "its class %s %%, ", DPTI_NUMBER(100 * s->right, 1));
    dpti_svg_put(page, "loss %s, sample %zu</span></li>\n",
                 isfinite(s->loss) ? DPTI_NUMBER(s->loss, 2) : "∞", s->index);
}

static void put_worst(dpti_svg *page, const dpti_report_classes *c)
{
    if (c->n_worst == 0) return;
    dpti_svg_put(
        page,
        "<section><h2>Worst samples</h2>\n<p class=\"note\">The samples of the %s data "
        "with the largest losses. A sample's class is in bold. Percentages are the model's "
        "probabilities. Samples are counted from 0.</p>\n"
        "<ul class=\"samples%s\">\n",
        c->part, c->worst[0].png.n_bytes > 0 ? "" : " plain");
    for (size_t i = 0; i < c->n_worst; i++)
        put_sample(page, c, &c->worst[i]);
    dpti_svg_put(page, "</ul></section>\n");
}

void dpti_report_put_classes(dpti_svg *page, const dpti_report *report)
{
    const dpti_report_classes *c = report->classes;
    if (!c) {
        if (report->no_classes) {
            dpti_svg_put(page, "<section><h2>Classes</h2><p>");
            dpti_svg_escape(page, report->no_classes);
            dpti_svg_put(page, "</p></section>\n");
        }
        return;
    }
    const size_t hits = c->counts.hits;
    dpti_svg_put(page, "<section><h2>Confused classes</h2>\n<p>");
    if (c->epoch > 0)
        dpti_svg_put(page, "These are the classes of the model after epoch %zu. ", c->epoch);
    dpti_svg_put(page, "Of %zu samples of the %s data %zu are taken for their class: %s %%.</p>\n",
                 c->counts.n_samples, c->part, hits,
                 DPTI_NUMBER(100 * part(hits, c->counts.n_samples), 2));
    if (c->counts.confusion && c->counts.n_classes <= MOST_CELLS)
        put_matrix(page, c);
    else if (c->counts.confusion)
        put_pairs(page, c);
    put_each_class(page, c);
    dpti_svg_put(page, "</section>\n");
    put_worst(page, c);
}
