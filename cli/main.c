/* The dptrain command: finds the command's name, reads its options and runs it. */
#include "config.h"
#include "job.h"
#include "join.h"
#include "lists.h"
#include "recipe.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cli_error(int code, const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    /* Arguments and names of files may have any bytes.  A message is one line of plain text. */
    for (char *c = message; *c; c++)
        if (iscntrl((unsigned char)*c)) *c = '?';
    /* One write, so that lines of other programs do not mix with this one. */
    fprintf(stderr, "dptrain: %s\n", message);
    return code;
}

void cli_note(const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    (void)cli_error(CLI_OK, "note: %s", message);
}

int cli_code_of(dpt_status status)
{
    if (status == DPT_E_INVALID) return CLI_USAGE;
    return status == DPT_E_DEVICE_LOST ? CLI_DEVICES_LOST : CLI_FAILURE;
}

int cli_fail(const dpt_context *context, dpt_status status)
{
    const char *message = context ? dpt_error_message(context) : "";
    return cli_error(cli_code_of(status), "%s", *message ? message : dpt_status_words(status));
}

/* A full disk behind stdout shows only here. */
int cli_flush(int code)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    const int failure = cli_error(CLI_FAILURE, "cannot write to standard output: %s",
                                  errno ? strerror(errno) : "write failed");
    clearerr(stdout); /* report it once */
    return code == CLI_OK ? failure : code;
}

void cli_leave(size_t n_stuck, int code)
{
    (void)cli_error(code, "%zu of the devices did not answer, and %s not closed", n_stuck,
                    n_stuck == 1 ? "is" : "are");
    code = cli_flush(code);
    (void)fflush(NULL);
    _exit(code);
}

/* If a standard stream is closed, the next file that is opened gets its number, and output would go
   to that file.  So /dev/null is opened in the wrong direction: it takes the number, and using the
   stream stays an error. */
static void occupy_closed_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY); /* the lowest free */
}

/* If the reader of stdout ends, a training that also writes files continues, and reports it at its
   end.  Every other command ends by SIGPIPE, as is usual. */
static void outlive_readers(const cli_verb_entry *verb, const cli_options *o)
{
    if (verb->verb & (CLI_TRAIN | CLI_JOIN) &&
        (o->checkpoint || o->log || o->plot || o->trace || o->tensorboard || o->report))
        (void)signal(SIGPIPE, SIG_IGN);
}

/* Gives a training what its recipe has, reads the files that options name, and runs the command. */
static int run(const cli_verb_entry *verb, cli_options *options)
{
    char *devices = NULL, *dataset = NULL;
    cli_job job = {.lock = -1};
    int code = verb->verb == CLI_TRAIN ? cli_job_enter(&job, options) : CLI_OK;
    if (code == CLI_OK && verb->verb & (CLI_TRAIN | CLI_PLAN | CLI_JOIN))
        code = cli_recipe_take(options);
    if (code == CLI_OK) code = cli_read_lists(options);
    if (code == CLI_OK && verb->verb != CLI_GENERATE) code = cli_name_text(options, &dataset);
    if (code == CLI_OK) code = cli_read_devices(options, &devices);
    if (code == CLI_OK)
        code = verb->run(options);
    else
        dpt_context_destroy(options->context);
    cli_job_leave(&job, code, options);
    cli_release_lists(options);
    free(devices);
    free(dataset);
    return code;
}

/* Runs the command, or with --supervise a child that does. */
static int run_supervised(const cli_verb_entry *verb, const cli_arguments *arguments,
                          cli_options *options)
{
    if (!options->supervise) return run(verb, options);
    if (!cli_supervised()) {
        const int code = cli_config_save(verb->verb, options);
        return code == CLI_OK
                   ? cli_supervise(arguments->argc, arguments->argv, arguments->first, options)
                   : code;
    }
    options->save_config = NULL; /* the parent has written it, without --resume */
    return run(verb, options);
}

int main(int argc, char **argv)
{
    occupy_closed_streams();
    /* A file that exceeds the size limit is an error of its write, and does not end the process. */
    (void)signal(SIGXFSZ, SIG_IGN);
    int first;
    const cli_verb_entry *verb = cli_find_verb(argc, argv, &first);
    if (!verb) return CLI_USAGE;
    const cli_arguments arguments = {argc, argv, first};
    cli_options options;
    cli_toml config = {0};
    char *command = cli_command_line(argc, argv); /* parsing moves words */
    int code = cli_parse(verb, &arguments, &options);
    if (code != CLI_OK) {
        free(command);
        return code;
    }
    options.command = command;
    if (options.help)
        cli_print_help(verb, first == 1);
    else if (options.version)
        printf("dptrain %s\n", DPT_VERSION);
    else if ((code = verb->verb == CLI_JOIN ? cli_join_take(&options, &config)
                                            : cli_config_read(verb, &options, &config)) == CLI_OK) {
        outlive_readers(verb, &options);
        code = run_supervised(verb, &arguments, &options);
    }
    cli_toml_release(&config);
    free(command);
    return cli_flush(code);
}
