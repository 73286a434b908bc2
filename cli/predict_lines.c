/* The lines that predict writes (predict_lines.h). */
#include "predict_lines.h"

#include "characters.h"
#include "new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Text under construction ----------------------------------------------------------------- */

static void put_bytes(cli_lines *l, const char *bytes, size_t n)
{
    if (l->capacity - l->n < n + 1) {
        const size_t wanted = 2 * l->capacity + n + 256;
        char *grown = realloc(l->text, wanted);
        if (!grown) l->no_memory = true;
        if (!grown) return;
        l->text = grown;
        l->capacity = wanted;
    }
    memcpy(l->text + l->n, bytes, n);
    l->n += n;
}

DPT_PRINTF(2, 3) static void put(cli_lines *l, const char *format, ...)
{
    char text[128];
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (n > 0) put_bytes(l, text, (size_t)n);
}

/* A text in JSON.  Bytes that are no UTF-8 become U+FFFD. */
static void put_json(cli_lines *l, const char *bytes, size_t n)
{
    put(l, "\"");
    for (size_t i = 0; i < n;) {
        const unsigned char c = (unsigned char)bytes[i];
        const size_t sound = c < 0x80 ? 1 : cli_characters_sound(bytes + i, n - i);
        if (c == '"' || c == '\\')
            put(l, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            put(l, "\\u%04x", c);
        else if (sound == 0)
            put(l, "\\ufffd");
        else
            put_bytes(l, bytes + i, 1);
        i++;
        for (; c >= 0x80 && sound > 0 && i < n && ((unsigned char)bytes[i] & 0xC0) == 0x80; i++)
            put_bytes(l, bytes + i, 1); /* the rest of the character */
    }
    put(l, "\"");
}

/* A field of CSV as RFC 4180 has it. */
static void put_csv(cli_lines *l, const char *bytes, size_t n)
{
    size_t i = 0;
    while (i < n && !strchr(",\"\r\n", bytes[i]))
        i++;
    if (i == n) {
        put_bytes(l, bytes, n);
        return;
    }
    put(l, "\"");
    for (i = 0; i < n; i++)
        put_bytes(l, bytes[i] == '"' ? "\"\"" : bytes + i, bytes[i] == '"' ? 2 : 1);
    put(l, "\"");
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static size_t n_ranks(const cli_lines *l)
{
    return l->top < l->classes ? l->top : l->classes;
}

/* The next class of falling probability behind one; of equal ones the first class first.  `before`:
   SIZE_MAX: none. */
static size_t next_class(const cli_lines *l, const float *p, size_t before)
{
    size_t best = SIZE_MAX;
    for (size_t c = 0; c < l->classes; c++) {
        const bool is_behind =
            before == SIZE_MAX || p[c] < p[before] || (p[c] == p[before] && c > before);
        if (is_behind && (best == SIZE_MAX || p[c] > p[best])) best = c;
    }
    return best;
}

static void add_text(cli_lines *l, const float *outputs)
{
    put(l, ":");
    for (size_t i = 0; l->regression && i < l->classes; i++)
        put(l, "%s %.6g", i ? "," : "", (double)outputs[i]);
    for (size_t rank = 0, c = SIZE_MAX; !l->regression && rank < n_ranks(l); rank++) {
        c = next_class(l, outputs, c);
        put(l, "%s ", rank ? "," : "");
        if (l->class_names)
            put_bytes(l, l->class_names[c], strlen(l->class_names[c]));
        else
            put(l, "class %zu", c);
        put(l, " %.4f", (double)outputs[c]);
    }
    put(l, "\n");
}

static void add_json(cli_lines *l, const float *outputs)
{
    put(l, l->regression ? ",\"outputs\":[" : ",\"classes\":[");
    for (size_t i = 0; l->regression && i < l->classes; i++)
        put(l, "%s%.9g", i ? "," : "", (double)outputs[i]);
    for (size_t rank = 0, c = SIZE_MAX; !l->regression && rank < n_ranks(l); rank++) {
        c = next_class(l, outputs, c);
        put(l, "%s{\"class\":%zu,", rank ? "," : "", c);
        if (l->class_names) {
            put(l, "\"name\":");
            put_json(l, l->class_names[c], strlen(l->class_names[c]));
            put(l, ",");
        }
        put(l, "\"probability\":%.9g}", (double)outputs[c]);
    }
    put(l, "]}\n");
}

static void add_csv(cli_lines *l, const float *outputs)
{
    for (size_t i = 0; l->regression && i < l->classes; i++)
        put(l, ",%.9g", (double)outputs[i]);
    for (size_t rank = 0, c = SIZE_MAX; !l->regression && rank < n_ranks(l); rank++) {
        c = next_class(l, outputs, c);
        put(l, ",%zu", c);
        if (l->class_names) put(l, ",");
        if (l->class_names) put_csv(l, l->class_names[c], strlen(l->class_names[c]));
        put(l, ",%.9g", (double)outputs[c]);
    }
    put(l, "\r\n");
}

void cli_lines_add(cli_lines *lines, const char *name, size_t n, const float *outputs)
{
    cli_lines *l = lines;
    switch (l->format) {
    case CLI_LINES_TEXT:
        put_bytes(l, name, n);
        add_text(l, outputs);
        break;
    case CLI_LINES_JSONL:
        put(l, "{\"image\":");
        put_json(l, name, n);
        if (cli_characters_sound(name, n) < n) {
            put(l, ",\"image_bytes\":\"");
            for (size_t i = 0; i < n; i++)
                put(l, "%02x", (unsigned char)name[i]);
            put(l, "\"");
        }
        add_json(l, outputs);
        break;
    case CLI_LINES_CSV:
        put_csv(l, name, n);
        add_csv(l, outputs);
        break;
    }
}

static void add_head(cli_lines *l)
{
    put(l, "image");
    for (size_t i = 0; l->regression && i < l->classes; i++)
        put(l, ",output%zu", i + 1);
    for (size_t rank = 1; !l->regression && rank <= n_ranks(l); rank++) {
        put(l, ",class%zu", rank);
        if (l->class_names) put(l, ",name%zu", rank);
        put(l, ",probability%zu", rank);
    }
    put(l, "\r\n");
}

/* ---- Files ----------------------------------------------------------------------------------- */

static int fail(const cli_lines *l, int code)
{
    return cli_error(CLI_FAILURE, "cannot write %s%s: %s", l->path ? "" : "to ",
                     l->path ? l->path : "standard output", strerror(code));
}

/* Writes all bytes.  Returns errno's code, or 0. */
static int write_bytes(const cli_lines *l, const char *bytes, size_t n)
{
    size_t done = 0;
    while (done < n) {
        const ssize_t more = write(l->file, bytes + done, n - done);
        if (more < 0 && errno != EINTR) return errno;
        if (more > 0) done += (size_t)more;
    }
    return 0;
}

/* Writes to a file, in which a full disk leaves no part of a line. */
static int write_file(const cli_lines *l)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t signals, before;
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        sigaddset(&signals, ending[i]);
    (void)sigprocmask(SIG_BLOCK, &signals, &before);
    const off_t begin = lseek(l->file, 0, SEEK_CUR);
    const int code = write_bytes(l, l->text, l->n);
    const off_t end = lseek(l->file, 0, SEEK_CUR);
    if (code != 0 && begin >= 0 && end > begin) {
        size_t whole = (size_t)(end - begin);
        while (whole > 0 && l->text[whole - 1] != '\n')
            whole--;
        if (ftruncate(l->file, begin + (off_t)whole) != 0) {
        } /* the failure of the write is told */
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return code;
}

/* Writes to a pipe or a terminal, which may wait, line by line: a signal may end the process while
   it waits, and a pipe takes a line of up to PIPE_BUF bytes as a whole. */
static int write_lines(const cli_lines *l)
{
    int code = 0;
    for (size_t at = 0; code == 0 && at < l->n;) {
        const char *end = memchr(l->text + at, '\n', l->n - at);
        const size_t n = end ? (size_t)(end - l->text) + 1 - at : l->n - at;
        code = write_bytes(l, l->text + at, n);
        at += n;
    }
    return code;
}

int cli_lines_flush(cli_lines *lines)
{
    cli_lines *l = lines;
    if (l->no_memory) return cli_error(CLI_FAILURE, "no memory for the lines of the images");
    const int code = l->n == 0 ? 0 : l->regular ? write_file(l) : write_lines(l);
    l->n = 0;
    return code == 0 ? CLI_OK : fail(l, code);
}

/* The table of options has checked the word. */
static cli_lines_format format_of(const char *word)
{
    if (word && strcmp(word, "jsonl") == 0) return CLI_LINES_JSONL;
    return word && strcmp(word, "csv") == 0 ? CLI_LINES_CSV : CLI_LINES_TEXT;
}

int cli_lines_check(const cli_options *options)
{
    const cli_options *o = options;
    if (!o->output) return CLI_OK;
    for (size_t i = 0; i < o->n_operands; i++)
        if (cli_is_same_file(o->output, o->operands[i]))
            return cli_error(CLI_USAGE, "--output: %s is one of the images", o->output);
    return cli_new_file_check(o->output);
}

int cli_lines_open(const cli_options *options, cli_lines *lines)
{
    cli_lines *l = lines;
    struct stat about;
    l->path = options->output;
    l->format = format_of(options->format);
    l->file = STDOUT_FILENO;
    if (l->path) l->file = open(l->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (l->file < 0) return fail(l, errno);
    l->regular = fstat(l->file, &about) == 0 && S_ISREG(about.st_mode);
    if (l->format == CLI_LINES_CSV) add_head(l);
    return cli_lines_flush(l);
}

int cli_lines_close(cli_lines *lines)
{
    cli_lines *l = lines;
    const int code = l->path && l->file >= 0 && close(l->file) != 0 ? errno : 0;
    const int status = code == 0 ? CLI_OK : fail(l, code);
    free(l->text);
    *l = (cli_lines){.file = -1};
    return status;
}
