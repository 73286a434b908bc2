/* Reads the file of --devices-of.  The library parses its entries (docs/processes.md). */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_BYTES = 1 << 20 };

/* Reports a file that cannot be read.  If there are several processes, the message names the host.
 */
static int cannot_read(const char *path, const char *reason)
{
    char host[256] = "";
    if (dpt_processes_launched() < 2 || gethostname(host, sizeof host - 1) != 0 || !*host)
        return cli_error(CLI_FAILURE, "cannot read the device list %s: %s", path, reason);
    return cli_error(CLI_FAILURE, "cannot read the device list %s on host %s: %s", path, host,
                     reason);
}

/* Reads a whole file, which may be a pipe, as text with a terminating zero. */
static int read_all(const char *path, char **out)
{
    FILE *file = fopen(path, "r");
    if (!file) return cannot_read(path, strerror(errno));
    char *text = malloc(MAX_BYTES + 1);
    const size_t n = text ? fread(text, 1, MAX_BYTES + 1, file) : 0;
    const int failed = ferror(file) ? errno : 0;
    fclose(file);
    int code = CLI_OK;
    if (!text)
        code = cannot_read(path, "no memory");
    else if (failed)
        code = cannot_read(path, strerror(failed));
    else if (n > MAX_BYTES)
        code = cannot_read(path, "it is longer than 1 MiB");
    else if (memchr(text, '\0', n))
        code = cannot_read(path, "it is not text");
    if (code != CLI_OK) {
        free(text);
        return code;
    }
    text[n] = '\0';
    *out = text;
    return CLI_OK;
}

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Joins the lines by ";" in place, which makes no text longer. */
static void join_lines(char *text)
{
    char *to = text;
    for (const char *at = text; *at;) {
        const char *line = at, *end = at + strcspn(at, "#\n");
        at += strcspn(at, "\n");
        if (*at) at++;
        while (line < end && blank(*line))
            line++;
        while (end > line && blank(end[-1]))
            end--;
        if (line == end) continue;
        if (to > text) *to++ = ';';
        memmove(to, line, (size_t)(end - line));
        to += end - line;
    }
    *to = '\0';
}

int cli_read_devices(cli_options *options, char **text)
{
    *text = NULL;
    if (!options->devices_of) return CLI_OK;
    if (options->devices)
        return cli_error(CLI_USAGE, "--devices and --devices-of both name devices: leave one");
    const int code = read_all(options->devices_of, text);
    if (code != CLI_OK) return code;
    join_lines(*text);
    if (!**text)
        return cli_error(CLI_USAGE,
                         "the device list %s has no entry: write lines such as @0=cuda:0,cpu",
                         options->devices_of);
    options->devices = *text;
    return CLI_OK;
}
