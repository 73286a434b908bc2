/* Feeds arbitrary bytes to the reader of --config.  A refusal is one line.  What is accepted is
   written as --save-config does, and that file is read as the same options. */
#include "config.h"
#include "fuzz.h"
#include "verbs.h"

#include <stdarg.h>
#include <stdio.h>

static size_t n_lines; /* that cli_error has written */

/* In place of the command's own, which writes to stderr. */
int cli_error(int code, const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    require(n > 0 && (code == CLI_USAGE || code == CLI_FAILURE));
    require(strncmp(message, "input:", 6) == 0 || strstr(message, "memory"));
    n_lines++;
    return code;
}

/* Likewise. */
void cli_note(const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    require(n > 0);
}

static char *written(const cli_verb_entry *verb, const cli_toml_file *file)
{
    cli_options options = {.operands = NULL};
    cli_toml toml;
    char *text = NULL;
    n_lines = 0;
    const int code = cli_config_take(verb, file, &options, &toml);
    require(n_lines == (code == CLI_OK ? 0 : 1));
    if (code == CLI_OK) {
        text = cli_config_text(verb->verb, &options);
        require(text != NULL);
    }
    cli_toml_release(&toml);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const cli_toml_file file = {"input", (const char *)data, size};
    for (size_t i = 0; i < 2; i++) { /* train and eval */
        char *text = written(&cli_verbs[i], &file);
        if (!text) return 0;
        const cli_toml_file again = {"input", text, strlen(text)};
        char *second = written(&cli_verbs[i], &again);
        require(second && strcmp(text, second) == 0);
        free(text);
        free(second);
    }
    return 0;
}
