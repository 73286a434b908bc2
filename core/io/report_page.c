/* The page of a report: its head, the facts, the devices, the settings. */
#include "io/report.h"

#include "io/file.h"
#include "io/report_parts.h"

#include <math.h>
#include <string.h>

/* ---- Head ------------------------------------------------------------------------------------ */

static void put_element(dpti_svg *page, const char *tag, const char *text)
{
    dpti_svg_put(page, "<%s>", tag);
    dpti_svg_escape(page, text);
    dpti_svg_put(page, "</%s>", tag);
}

static void put_head(dpti_svg *page, const dpti_report *report)
{
    dpti_svg_put(page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                       "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                       "style-src 'unsafe-inline'; img-src data:\">\n"
                       "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                       "<meta name=\"color-scheme\" content=\"light dark\">\n");
    put_element(page, "title", report->title);
    dpti_svg_put(page, "\n<style>\n");
    for (size_t i = 0; dpti_report_style[i]; i++)
        dpti_svg_put(page, "%s", dpti_report_style[i]);
    dpti_svg_put(page, "</style>\n</head>\n<body>\n<header><h1>");
    dpti_svg_escape(page, report->title);
    dpti_svg_put(page, "</h1>\n<p class=\"ending %s\">", report->well ? "well" : "not-well");
    put_element(page, "span", report->well ? "✓" : "!");
    dpti_svg_put(page, " ");
    dpti_svg_escape(page, report->ending);
    dpti_svg_put(page, "</p>\n<dl class=\"facts\">\n");
    for (size_t i = 0; i < report->n_facts; i++) {
        dpti_svg_put(page, "<div>");
        put_element(page, "dt", report->facts[i].name);
        put_element(page, "dd", report->facts[i].value);
        dpti_svg_put(page, "</div>\n");
    }
    dpti_svg_put(page, "</dl>\n");
    if (report->command) {
        dpti_svg_put(page, "<h2>Command</h2>\n<pre class=\"command\">");
        put_element(page, "code", report->command);
        dpti_svg_put(page, "</pre>\n");
    }
    dpti_svg_put(page, "</header>\n<main>\n");
}

/* ---- Devices --------------------------------------------------------------------------------- */

static void put_cell(dpti_svg *page, const char *label, const char *text)
{
    dpti_svg_put(page, "<td data-label=\"%s\">", label);
    dpti_svg_escape(page, text);
    dpti_svg_put(page, "</td>");
}

static void put_percent(dpti_svg *page, const char *label, double value)
{
    dpti_svg_put(page,
                 "<td data-label=\"%s\"><span class=\"bar\" style=\"--p:%s\"></span>%s %%</td>",
                 label, DPTI_NUMBER(value < 1 ? value : 1, 3), DPTI_NUMBER(100 * value, 1));
}

static void put_device(dpti_svg *page, const dpti_report_device *d)
{
    dpti_svg_put(page, "<tr><th scope=\"row\">");
    dpti_svg_escape(page, d->id);
    if (d->lost) dpti_svg_put(page, " <span class=\"lost\">lost</span>");
    dpti_svg_put(page, "</th><td data-label=\"hardware\">");
    dpti_svg_escape(page, d->name);
    dpti_svg_put(page, "<span class=\"note\"> ");
    dpti_svg_escape(page, d->backend);
    if (d->host) {
        dpti_svg_put(page, " on ");
        dpti_svg_escape(page, d->host);
    }
    if (d->threads > 0) dpti_svg_put(page, ", threads or units: %zu", d->threads);
    if (d->memory_bytes > 0)
        dpti_svg_put(page, ", %s GiB", DPTI_NUMBER((double)d->memory_bytes / (1 << 30), 1));
    if (d->detail && d->detail[0]) {
        dpti_svg_put(page, "; ");
        dpti_svg_escape(page, d->detail);
    }
    dpti_svg_put(page, "</span></td>");
    put_percent(page, "share", d->share);
    put_percent(page, "busy", d->busy);
    put_percent(page, "exchange", d->exchange);
    put_percent(page, "waiting", d->waiting);
    put_cell(page, "samples/s", d->throughput > 0 ? DPTI_NUMBER(d->throughput, 0) : "–");
    dpti_svg_put(page, "</tr>\n");
}

static void put_devices(dpti_svg *page, const dpti_report *report)
{
    static const char *const heads[] = {"device",   "hardware", "share",    "busy",
                                        "exchange", "waiting",  "samples/s"};
    dpti_svg_put(page,
                 "<section><h2>Devices</h2>\n<p class=\"note\">Share: the part of all samples. "
                 "Busy: the part of the time of the steps in which the device computed or "
                 "exchanged; exchange is a part of it. Samples/s: of busy time. Times are without "
                 "steps in which a device had samples for the first time.</p>\n"
                 "<table class=\"cards devices\"><thead><tr>");
    for (size_t k = 0; k < sizeof heads / sizeof *heads; k++)
        dpti_svg_put(page, "<th scope=\"col\">%s</th>", heads[k]);
    dpti_svg_put(page, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < report->n_devices; i++)
        put_device(page, &report->devices[i]);
    dpti_svg_put(page, "</tbody></table>\n");
    if (report->n_events > 0)
        dpti_svg_put(page, "<h3>Events of devices</h3>\n<ul class=\"events\">\n");
    for (size_t i = 0; i < report->n_events; i++) {
        const dpti_report_event *e = &report->events[i];
        dpti_svg_put(page, "<li><b>step %zu: ", e->step);
        dpti_svg_escape(page, e->kind);
        dpti_svg_put(page, "</b>, ");
        dpti_svg_escape(page, e->device);
        dpti_svg_put(page, ": ");
        dpti_svg_escape(page, e->message);
        dpti_svg_put(page, "</li>\n");
    }
    if (report->n_events > 0) dpti_svg_put(page, "</ul>\n");
    if (report->n_events_left_out > 0)
        dpti_svg_put(page, "<p class=\"note\">And %zu more.</p>\n", report->n_events_left_out);
    dpti_svg_put(page, "</section>\n");
}

/* ---- Settings -------------------------------------------------------------------------------- */

static void put_settings(dpti_svg *page, const dpti_report *report)
{
    if (report->n_settings == 0) return;
    dpti_svg_put(page, "<section><h2>Settings</h2>\n<dl class=\"settings\">\n");
    for (size_t i = 0; i < report->n_settings; i++) {
        dpti_svg_put(page, "<div>");
        put_element(page, "dt", report->settings[i].name);
        put_element(page, "dd", report->settings[i].value);
        dpti_svg_put(page, "</div>\n");
    }
    dpti_svg_put(page, "</dl></section>\n");
}

static void put_page(dpti_svg *page, const dpti_report *report)
{
    put_head(page, report);
    dpti_report_put_curves(page, report);
    put_devices(page, report);
    dpti_report_put_shares(page, report);
    dpti_report_put_classes(page, report);
    put_settings(page, report);
    dpti_svg_put(page, "</main>\n<footer>Written by dptrain ");
    dpti_svg_escape(page, report->version);
    dpti_svg_put(page, ".</footer>\n</body>\n</html>\n");
}

dpt_status dpti_report_write(const char *path, const dpti_report *report, dpt_error *error)
{
    dpti_svg page = {.text = NULL};
    dpti_new_file file;
    put_page(&page, report);
    dpt_status status = page.failed
                            ? DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the report %s", path)
                            : dpti_new_file_create(path, &file, error);
    if (status == DPT_OK) {
        status = dpti_new_file_write(&file, page.text, page.length, error);
        if (status == DPT_OK)
            status = dpti_new_file_commit(&file, error);
        else
            dpti_new_file_discard(&file);
    }
    dpti_svg_free(&page);
    return status;
}
