/* Writes SVG: text, numbers and axes. */
#include "io/svg.h"

#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Text ------------------------------------------------------------------------------------ */

static bool reserve(dpti_svg *svg, size_t more)
{
    if (svg->failed) return false;
    if (svg->capacity - svg->length > more) return true;
    const size_t capacity = 2 * svg->capacity + more + 4096;
    char *text = realloc(svg->text, capacity);
    if (!text) {
        svg->failed = true;
        return false;
    }
    svg->text = text;
    svg->capacity = capacity;
    return true;
}

void dpti_svg_put(dpti_svg *svg, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0 || !reserve(svg, (size_t)length)) return;
    va_start(args, format);
    vsnprintf(svg->text + svg->length, (size_t)length + 1, format, args);
    va_end(args);
    svg->length += (size_t)length;
}

void dpti_svg_free(dpti_svg *svg)
{
    free(svg->text);
    *svg = (dpti_svg){0};
}

/* Returns the bytes of the UTF-8 character that begins here if XML allows the character; else
   0. */
static size_t character_bytes(const char *text)
{
    uint32_t code;
    const size_t n = dpti_character(text, &code);
    const bool control = code < 0x20 && code != '\t' && code != '\n';
    return control || code == 0xfffe || code == 0xffff ? 0 : n;
}

void dpti_svg_escape(dpti_svg *svg, const char *text)
{
    while (*text) {
        const size_t n = character_bytes(text);
        switch (*text) {
        case '&': dpti_svg_put(svg, "&amp;"); break;
        case '<': dpti_svg_put(svg, "&lt;"); break;
        case '>': dpti_svg_put(svg, "&gt;"); break;
        case '"': dpti_svg_put(svg, "&quot;"); break;
        case '\'': dpti_svg_put(svg, "&#39;"); break;
        default: dpti_svg_put(svg, "%.*s", n ? (int)n : 1, n ? text : "?"); break;
        }
        text += n ? n : 1;
    }
}

void dpti_svg_text(dpti_svg *svg, dpti_point at, const char *css_class, const char *text)
{
    dpti_svg_put(svg, "<text class=\"%s\" x=\"%s\" y=\"%s\">", css_class, DPTI_PX(at.x),
                 DPTI_PX(at.y));
    dpti_svg_escape(svg, text);
    dpti_svg_put(svg, "</text>\n");
}

/* ---- Numbers --------------------------------------------------------------------------------- */

const char *dpti_svg_number(char out[DPTI_NUMBER_BYTES], double value, int decimals)
{
    long long unit = 1;
    for (int i = 0; i < decimals; i++)
        unit *= 10;
    const double scaled = round(value * (double)unit);
    if (!(fabs(scaled) < 1e18)) { /* also for NaN: nothing is drawn there */
        snprintf(out, DPTI_NUMBER_BYTES, "0");
        return out;
    }
    const long long size = llabs((long long)scaled);
    int n = snprintf(out, DPTI_NUMBER_BYTES, "%s%lld", scaled < 0 ? "-" : "", size / unit);
    if (decimals > 0) out[n++] = '.';
    for (long long rest = size % unit; decimals > 0; decimals--) {
        unit /= 10;
        out[n++] = (char)('0' + rest / unit);
        rest %= unit;
    }
    out[n] = '\0';
    return out;
}

const char *dpti_axis_label(char out[DPTI_NUMBER_BYTES], double value, double step)
{
    const int power = (int)floor(log10(step) + 1e-9);
    if (power >= -4 && power <= 5) return dpti_svg_number(out, value, power < 0 ? -power : 0);
    const double digits = round(value / pow(10, power));
    if (digits == 0)
        snprintf(out, DPTI_NUMBER_BYTES, "0");
    else
        snprintf(out, DPTI_NUMBER_BYTES, "%llde%d", (long long)digits, power);
    return out;
}

/* ---- Axes ------------------------------------------------------------------------------------ */

static double round_step(double range, int n_ticks, bool whole)
{
    const double rough = range / n_ticks;
    const double power = pow(10, floor(log10(rough)));
    const double ratio = rough / power;
    const double step = (ratio <= 1 ? 1 : ratio <= 2 ? 2 : ratio <= 5 ? 5 : 10) * power;
    return whole && step < 1 ? 1 : step;
}

dpti_axis dpti_axis_make(double low, double high, int n_ticks, bool whole)
{
    if (!(high - low > 1e-12 * (fabs(low) + fabs(high)) && high - low > 1e-300)) {
        const double margin = whole || low == 0 ? 0.5 : 0.1 * fabs(low);
        low -= margin;
        high += margin;
    }
    return (dpti_axis){.low = low, .high = high, .step = round_step(high - low, n_ticks, whole)};
}

dpti_axis dpti_axis_make_round(double low, double high, int n_ticks)
{
    dpti_axis axis = dpti_axis_make(low, high, n_ticks, false);
    /* The tolerance keeps an end that lies on a tick except for rounding. */
    axis.low = axis.step * floor(axis.low / axis.step + 1e-6);
    axis.high = axis.step * ceil(axis.high / axis.step - 1e-6);
    return axis;
}

double dpti_frame_x(const dpti_frame *frame, double value)
{
    return frame->x +
           frame->width * (value - frame->across.low) / (frame->across.high - frame->across.low);
}

double dpti_frame_y(const dpti_frame *frame, double value)
{
    return frame->y + frame->height * (frame->up.high - value) / (frame->up.high - frame->up.low);
}

void dpti_svg_frame(dpti_svg *svg, const dpti_frame *frame)
{
    enum { MOST_TICKS = 50 };
    char label[DPTI_NUMBER_BYTES];
    const dpti_axis *up = &frame->up, *across = &frame->across;
    const double right = frame->x + frame->width, bottom = frame->y + frame->height;

    double tick = ceil(up->low / up->step - 1e-6);
    for (int i = 0; i < MOST_TICKS && tick * up->step <= up->high + 1e-6 * up->step; i++, tick++) {
        const double y = dpti_frame_y(frame, tick * up->step);
        dpti_svg_put(svg, "<path class=\"grid\" d=\"M%s %sH%s\"/>\n", DPTI_PX(frame->x), DPTI_PX(y),
                     DPTI_PX(right));
        dpti_axis_label(label, tick * up->step * frame->unit_factor, up->step * frame->unit_factor);
        dpti_svg_put(svg, "<text class=\"tick end\" x=\"%s\" y=\"%s\">%s%s</text>\n",
                     DPTI_PX(frame->x - 8), DPTI_PX(y + 4), label, frame->unit);
    }
    tick = ceil(across->low / across->step - 1e-6);
    for (int i = 0; i < MOST_TICKS && tick * across->step <= across->high + 1e-6 * across->step;
         i++, tick++) {
        const double x = dpti_frame_x(frame, tick * across->step);
        dpti_svg_put(svg, "<path class=\"axis\" d=\"M%s %sv5\"/>\n", DPTI_PX(x), DPTI_PX(bottom));
        dpti_svg_text(svg, (dpti_point){x, bottom + 18}, "tick middle",
                      dpti_axis_label(label, tick * across->step, across->step));
    }
    dpti_svg_put(svg, "<path class=\"axis\" d=\"M%s %sH%s\"/>\n", DPTI_PX(frame->x),
                 DPTI_PX(bottom), DPTI_PX(right));
}
