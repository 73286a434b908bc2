/* Parses the values of options: numbers, times, lengths of training, lists of augmentations. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool cli_parse_count(const char *text, size_t min, size_t max, size_t *out)
{
    if (text[0] < '0' || text[0] > '9') return false;
    errno = 0;
    char *end;
    const unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end || value < min || value > max) return false;
    *out = (size_t)value;
    return true;
}

bool cli_parse_real(const char *text, double low, double high, double *out)
{
    /* strtod also reads white space, signs, hexadecimal, "inf" and "nan". */
    if (!(text[0] >= '0' && text[0] <= '9') && text[0] != '.') return false;
    if (strspn(text, "0123456789.eE+-") != strlen(text)) return false;
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end || !(value >= low && value <= high)) return false;
    *out = value;
    return true;
}

/* Splits "5epochs": copies the digits to `number` and returns "epochs".  NULL if there are too many
   digits. */
static const char *split_unit(const char *text, char number[32])
{
    const size_t length = strspn(text, "0123456789.eE+-");
    /* An "e" that no digit follows belongs to the unit. */
    const size_t n = length > 0 && (text[length - 1] | 0x20) == 'e' ? length - 1 : length;
    if (n >= 32) return NULL;
    memcpy(number, text, n);
    number[n] = '\0';
    return text + n;
}

bool cli_parse_seconds(const char *text, double *out)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}};
    char number[32];
    double value;
    const char *unit = split_unit(text, number);
    if (!unit || !cli_parse_real(number, 0, 1e9, &value) || !(value > 0)) return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(unit, units[i].unit) != 0) continue;
        *out = value * units[i].seconds;
        return true;
    }
    return false;
}

bool cli_parse_span(const char *text, size_t max, cli_span *out)
{
    char number[32];
    size_t n;
    const char *unit = split_unit(text, number);
    if (!unit || !cli_parse_count(number, 1, max, &n)) return false;
    const bool epochs = strcmp(unit, "epochs") == 0;
    if (!epochs && *unit && strcmp(unit, "steps") != 0) return false;
    *out = (cli_span){.n = n, .epochs = epochs};
    return true;
}

bool cli_parse_interval(const char *text, size_t max, dpt_interval *out)
{
    cli_span span;
    double seconds;
    if (cli_parse_span(text, max, &span)) {
        *out = span.epochs ? (dpt_interval){.epochs = span.n} : (dpt_interval){.steps = span.n};
        return true;
    }
    if (!cli_parse_seconds(text, &seconds)) return false;
    *out = (dpt_interval){.seconds = seconds};
    return true;
}

/* ---- Lists of images ------------------------------------------------------------------------- */

/* Parses a decimal number and moves *text past it. */
static bool take_number(const char **text, size_t *out)
{
    const size_t n_digits = strspn(*text, "0123456789");
    char digits[20];
    if (n_digits == 0 || n_digits >= sizeof digits) return false;
    memcpy(digits, *text, n_digits);
    digits[n_digits] = '\0';
    *text += n_digits;
    return cli_parse_count(digits, 0, SIZE_MAX, out);
}

bool cli_parse_run(const char **list, size_t *first, size_t *last)
{
    const char *at = *list;
    if (!take_number(&at, first)) return false;
    *last = *first;
    if (*at == '-') {
        at++;
        if (!take_number(&at, last)) return false;
    }
    if (*last < *first || (*at && *at != ',')) return false;
    *list = at;
    return true;
}

/* ---- Augmentation ---------------------------------------------------------------------------- */

enum { WORD_BYTES = 64, MAX_PADDING = 1024 };

static const size_t default_padding = 4;
static const double default_erase = 0.25, default_area = 0.08, default_alpha = 1;

const char *const cli_augmentations[] = {"crop",  "flip",   "rotate", "randaugment",  "jitter",
                                         "mixup", "cutmix", "erase",  "resized-crop", NULL};

static int unknown_augmentation(const char *label, const char *word)
{
    const char *nearest = dpt_nearest(word, cli_augmentations);
    if (nearest)
        return cli_error(CLI_USAGE, "%s: unknown word '%s'; did you mean '%s'?", label, word,
                         nearest);
    return cli_error(CLI_USAGE,
                     "%s: unknown word '%s'; known: crop[:PADDING], flip, rotate:DEGREES, "
                     "randaugment[:OPERATIONS[:MAGNITUDE]], "
                     "jitter:BRIGHTNESS[:CONTRAST[:SATURATION[:HUE]]], "
                     "mixup[:ALPHA], cutmix[:ALPHA], erase[:P], resized-crop[:AREA]; or none alone",
                     label, word);
}

static int take_crop(const char *label, const char *parameter, cli_augment *out)
{
    size_t *padding = &out->images.crop_padding;
    *padding = default_padding;
    if (!parameter || cli_parse_count(parameter, 1, MAX_PADDING, padding)) return CLI_OK;
    return cli_error(CLI_USAGE, "%s: crop:%s is not a padding of 1 to %d pixels", label, parameter,
                     MAX_PADDING);
}

static int take_flip(const char *label, const char *parameter, cli_augment *out)
{
    out->images.flip = true;
    if (!parameter) return CLI_OK;
    return cli_error(CLI_USAGE, "%s: flip takes no parameter", label);
}

static int take_erase(const char *label, const char *parameter, cli_augment *out)
{
    double p = default_erase;
    if (parameter && (!cli_parse_real(parameter, 0, 1, &p) || !(p > 0)))
        return cli_error(CLI_USAGE, "%s: erase:%s is not a probability above 0, up to 1", label,
                         parameter);
    out->images.erase = (float)p;
    return CLI_OK;
}

static int take_resized_crop(const char *label, const char *parameter, cli_augment *out)
{
    double area = default_area;
    if (parameter && (!cli_parse_real(parameter, 0, 1, &area) || !(area > 0)))
        return cli_error(CLI_USAGE,
                         "%s: resized-crop:%s is not the least part of a picture's area, above 0, "
                         "up to 1",
                         label, parameter);
    out->images.resized_crop = (float)area;
    return CLI_OK;
}

static int take_rotate(const char *label, const char *parameter, cli_augment *out)
{
    double degrees;
    if (!parameter || !cli_parse_real(parameter, 0, 180, &degrees) || !(degrees > 0))
        return cli_error(CLI_USAGE,
                         "%s: rotate%s%s has no angle above 0, up to 180 degrees, such as "
                         "rotate:15",
                         label, parameter ? ":" : "", parameter ? parameter : "");
    out->rotate = (float)degrees;
    return CLI_OK;
}

/* "0.4:0.4:0.4:0.1", or the first of these numbers; the others are 0. */
static bool parse_jitter(const char *text, double numbers[4])
{
    const char *at = text;
    for (size_t n = 0; n < 4; n++, at++) {
        char number[32];
        const size_t length = strcspn(at, ":");
        if (length >= sizeof number) return false;
        memcpy(number, at, length);
        number[length] = '\0';
        if (!cli_parse_real(number, 0, n == 3 ? 0.5 : 1, &numbers[n])) return false;
        at += length;
        if (!*at) return numbers[0] > 0 || numbers[1] > 0 || numbers[2] > 0 || numbers[3] > 0;
    }
    return false;
}

static int take_jitter(const char *label, const char *parameter, cli_augment *out)
{
    double n[4] = {0};
    if (!parameter || !parse_jitter(parameter, n))
        return cli_error(CLI_USAGE,
                         "%s: jitter%s%s is not jitter:BRIGHTNESS[:CONTRAST[:SATURATION[:HUE]]] "
                         "with numbers from 0 to 1, of the hue to 0.5, not all 0",
                         label, parameter ? ":" : "", parameter ? parameter : "");
    out->jitter = (dpt_jitter_options){(float)n[0], (float)n[1], (float)n[2], (float)n[3]};
    return CLI_OK;
}

static int take_randaugment(const char *label, const char *parameter, cli_augment *out)
{
    char ops[32] = "2";
    const char *colon = parameter ? strchr(parameter, ':') : NULL;
    const size_t length = colon ? (size_t)(colon - parameter) : parameter ? strlen(parameter) : 0;
    dpt_randaugment_options *r = &out->randaugment;
    if (length < sizeof ops && parameter) {
        memcpy(ops, parameter, length);
        ops[length] = '\0';
    }
    if (length < sizeof ops && cli_parse_count(ops, 1, 6, &r->ops) &&
        cli_parse_count(colon ? colon + 1 : "9", 0, 30, &r->magnitude))
        return CLI_OK;
    return cli_error(CLI_USAGE,
                     "%s: randaugment:%s is not randaugment:OPERATIONS:MAGNITUDE with 1 to 6 "
                     "operations and a magnitude of 0 to 30",
                     label, parameter);
}

static int take_alpha(const char *label, const char *word, const char *parameter, float *out)
{
    double alpha = default_alpha;
    if (parameter && !cli_parse_real(parameter, 0.01, 100, &alpha))
        return cli_error(CLI_USAGE, "%s: %s:%s is not an alpha of 0.01 to 100", label, word,
                         parameter);
    *out = (float)alpha;
    return CLI_OK;
}

static int take_mixup(const char *label, const char *parameter, cli_augment *out)
{
    return take_alpha(label, "mixup", parameter, &out->mixup);
}

static int take_cutmix(const char *label, const char *parameter, cli_augment *out)
{
    return take_alpha(label, "cutmix", parameter, &out->cutmix);
}

/* Sets the option that a word of the list means.  `parameter` follows the colon (NULL: none). */
static int take_augmentation(const char *label, const char *word, const char *parameter,
                             cli_augment *out)
{
    static const struct {
        const char *word;
        int (*take)(const char *label, const char *parameter, cli_augment *out);
    } words[] = {{"crop", take_crop},
                 {"flip", take_flip},
                 {"rotate", take_rotate},
                 {"randaugment", take_randaugment},
                 {"jitter", take_jitter},
                 {"mixup", take_mixup},
                 {"cutmix", take_cutmix},
                 {"erase", take_erase},
                 {"resized-crop", take_resized_crop}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i].word) == 0) return words[i].take(label, parameter, out);
    return unknown_augmentation(label, word);
}

int cli_parse_augment(const char *label, const char *text, cli_augment *out)
{
    cli_augment augment = {0};
    if (strcmp(text, "none") == 0) {
        *out = augment;
        return CLI_OK;
    }
    for (const char *at = text;; at++) {
        char word[WORD_BYTES];
        const size_t length = strcspn(at, ",");
        if (length >= sizeof word) return unknown_augmentation(label, at);
        memcpy(word, at, length);
        word[length] = '\0';
        char *colon = strchr(word, ':');
        if (colon) *colon++ = '\0';
        const int code = take_augmentation(label, word, colon, &augment);
        if (code != CLI_OK) return code;
        at += length;
        if (!*at) break;
    }
    *out = augment;
    return CLI_OK;
}

/* ---- Initial weights ------------------------------------------------------------------------- */

int cli_parse_init(const char *label, const char *text, dpt_init *out)
{
    static const struct {
        const char *word;
        dpt_init_kind kind;
    } kinds[] = {{"default", DPT_INIT_DEFAULT}, {"xavier", DPT_INIT_XAVIER}, {"he", DPT_INIT_HE}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(text, kinds[i].word) != 0) continue;
        *out = (dpt_init){.kind = kinds[i].kind};
        return CLI_OK;
    }
    *out = (dpt_init){.kind = DPT_INIT_NORMAL};
    if (strncmp(text, "normal:", 7) == 0 && cli_parse_real(text + 7, 1e-10, 1e3, &out->deviation))
        return CLI_OK;
    return cli_error(CLI_USAGE,
                     "%s: init \"%s\" is not one of default, normal:STD (from 1e-10 to 1000, such "
                     "as normal:0.01), xavier, he",
                     label, text);
}
