/* The launcher that `dptrain supervise` starts (launch.h).

   The words are used as they are, but for three things: the number of processes, which known
   launchers have in an option before the word `dptrain`, and the placeholders {processes}, {hosts}
   and {nodes}. */
#include "launch.h"

#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char for_processes[] = "{processes}", for_hosts[] = "{hosts}", for_nodes[] = "{nodes}";
enum { MOST_PROCESSES = 65536 };

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_one_of(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(word, *list) == 0) return true;
    return false;
}

static bool is_mpirun(const char *launcher)
{
    static const char *const names[] = {"mpirun",  "mpiexec", "mpiexec.hydra",
                                        "orterun", "prterun", NULL};
    return is_one_of(base_name(launcher), names);
}

static bool is_srun(const char *launcher)
{
    return strcmp(base_name(launcher), "srun") == 0;
}

static bool any_has(const cli_launch *l, const char *placeholder)
{
    for (size_t i = 0; i < l->n; i++)
        if (strstr(l->words[i], placeholder)) return true;
    return false;
}

/* ---- The number of processes ----------------------------------------------------------------- */

/* Returns where the number of processes begins in a word such as -n4 or --ntasks=4; 0: the word is
   no such one.  *next: the number is the next word. */
static size_t find_count(const char *word, bool *next)
{
    static const char *const alone[] = {"-n", "-np", "--n", "--np", "--ntasks", NULL};
    static const char *const joined[] = {"--ntasks=", "--n=", "--np=", "-n=", "-np=", NULL};
    *next = is_one_of(word, alone);
    for (const char *const *j = joined; *j; j++)
        if (strncmp(word, *j, strlen(*j)) == 0) return strlen(*j);
    return strncmp(word, "-n", 2) == 0 && word[2] >= '0' && word[2] <= '9' ? 2 : 0;
}

/* Finds the launcher's own option before the word `dptrain`. */
static int find_own_count(cli_launch *l, size_t end)
{
    size_t n = 0;
    for (size_t i = 1; i < end; i++) {
        bool next = false;
        const size_t begin = find_count(l->words[i], &next);
        if (begin == 0 && !next) continue;
        l->count_word = next ? ++i : i;
        l->count_begin = begin;
        n++;
        if (i >= end || !cli_parse_count(l->words[i] + begin, 1, MOST_PROCESSES, &l->processes))
            return cli_error(CLI_USAGE, "the number of processes behind %s is not one from 1 to %d",
                             l->words[next ? i - 1 : 0], MOST_PROCESSES);
    }
    if (n == 1) return CLI_OK;
    return cli_error(
        CLI_USAGE, n > 1 ? "the launcher has several numbers of processes: supervise starts one "
                           "command in all processes"
                         : "supervise does not see how many processes the launcher starts: give -n "
                           "N before dptrain, or --processes N and {processes} in its arguments");
}

/* Returns the index of the word `dptrain`, with any folder; n: there is none. */
static size_t find_program(const cli_launch *l)
{
    for (size_t i = 1; i < l->n; i++)
        if (strcmp(base_name(l->words[i]), "dptrain") == 0) return i;
    return l->n;
}

static int read_count(const cli_options *options, cli_launch *l)
{
    const size_t end = find_program(l);
    const bool has = any_has(l, for_processes);
    if (has && options->processes == 0)
        return cli_error(CLI_USAGE, "{processes} needs --processes N, their number");
    if (!has && options->processes > 0)
        return cli_error(CLI_USAGE, "--processes goes with {processes} in the arguments of the "
                                    "launcher");
    l->processes = options->processes;
    if (has) return CLI_OK;
    if (!is_mpirun(l->words[0]) && !is_srun(l->words[0]))
        return cli_error(
            CLI_USAGE,
            "supervise does not know the launcher %s: write {processes} where it takes "
            "their number, and give that with --processes N",
            l->words[0]);
    if (end == l->n)
        return cli_error(CLI_USAGE,
                         "there is no word dptrain behind %s: write {processes} where the "
                         "launcher takes their number, and give that with --processes N",
                         l->words[0]);
    for (size_t i = end; i < l->n; i++)
        if (strcmp(l->words[i], ":") == 0)
            return cli_error(CLI_USAGE,
                             "supervise starts one command in all processes, and there is "
                             "another one behind ':'");
    return find_own_count(l, end);
}

/* ---- Hosts ----------------------------------------------------------------------------------- */

/* A launcher with a fixed list of hosts would fail at each start after the loss of one. */
static int check_own_hosts(const cli_launch *l)
{
    static const char *const names[] = {
        "--host",        "-host",        "-H", "--hosts", "-hosts",     "--hostfile", "-hostfile",
        "--machinefile", "-machinefile", "-f", "-w",      "--nodelist", "--nodefile", NULL};
    const size_t end = find_program(l);
    for (size_t i = 1; i < end; i++) {
        char word[32];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(l->words[i], "="), l->words[i]);
        const char *value =
            strchr(l->words[i], '=') || i + 1 == end ? l->words[i] : l->words[i + 1];
        if (is_one_of(word, names) && !strstr(value, for_hosts))
            return cli_error(CLI_USAGE,
                             "%s has hosts that supervise cannot leave out: give --hosts LIST to "
                             "supervise, and {hosts} to the launcher",
                             word);
    }
    return CLI_OK;
}

static int read_hosts(const cli_options *options, cli_launch *l)
{
    const bool has = any_has(l, for_hosts);
    if (has && !options->hosts)
        return cli_error(CLI_USAGE,
                         "{hosts} needs --hosts LIST, the hosts with commas between them");
    if (!has && options->hosts)
        return cli_error(CLI_USAGE, "--hosts goes with {hosts} in the arguments of the launcher");
    if (any_has(l, for_nodes) && !options->hosts)
        return cli_error(CLI_USAGE, "{nodes} is the number of hosts, and needs --hosts LIST");
    if (options->probe && !options->hosts) return cli_error(CLI_USAGE, "--probe goes with --hosts");
    l->probe = options->probe         ? options->probe
               : is_srun(l->words[0]) ? "srun --overlap --nodes=1 --ntasks=1 --nodelist=\"$1\" true"
                                      : "ssh -o BatchMode=yes -o ConnectTimeout=3 \"$1\" true";
    if (options->hosts) return cli_hosts_read(options->hosts, l);
    return is_mpirun(l->words[0]) || is_srun(l->words[0]) ? check_own_hosts(l) : CLI_OK;
}

/* Whether this mpirun is Open MPI's, which passes on a variable to other hosts only if it is told.
 */
static bool is_open_mpi(const char *launcher)
{
    int ends[2];
    char text[512] = "";
    size_t n = 0;
    if (!is_mpirun(launcher) || pipe(ends) != 0) return false;
    const pid_t id = fork();
    if (id == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp(launcher, launcher, "--version", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    for (ssize_t got; id > 0 && n + 1 < sizeof text; n += (size_t)got)
        if ((got = read(ends[0], text + n, sizeof text - 1 - n)) <= 0) break;
    close(ends[0]);
    if (id > 0) (void)waitpid(id, NULL, 0);
    return strstr(text, "Open MPI") || strstr(text, "OpenRTE");
}

/* By default srun leaves the other processes to wait for one that has died. */
static int tell_srun(const cli_launch *l)
{
    if (!is_srun(l->words[0]) || setenv("SLURM_KILL_BAD_EXIT", "1", 0) == 0) return CLI_OK;
    return cli_error(CLI_FAILURE, "no memory to start the job");
}

int cli_launch_read(const cli_options *options, cli_launch *out)
{
    cli_launch l = {.words = options->operands, .n = options->n_operands};
    if (l.n == 0)
        return cli_error(CLI_USAGE, "supervise starts a launcher: dptrain supervise -- mpirun -n 4 "
                                    "dptrain --checkpoint DIR ...");
    int code = read_count(options, &l);
    if (code == CLI_OK) code = read_hosts(options, &l);
    if (code == CLI_OK) l.exports = is_open_mpi(l.words[0]);
    if (code == CLI_OK) code = tell_srun(&l);
    if (code == CLI_OK)
        *out = l;
    else
        cli_launch_free(&l);
    return code;
}

void cli_launch_free(cli_launch *launch)
{
    free(launch->hosts);
    *launch = (cli_launch){.n = 0};
}

/* ---- The words of a start -------------------------------------------------------------------- */

static void write_hosts(FILE *out, const cli_launch *l)
{
    for (size_t i = 0; i < l->n_hosts; i++)
        fprintf(out, "%s%s", i ? "," : "", l->hosts[i].text);
}

/* Returns a word with what its placeholders stand for. */
static char *fill(const cli_launch *l, size_t i)
{
    const char *word = l->words[i];
    char *text = NULL;
    size_t n_bytes = 0;
    FILE *out = open_memstream(&text, &n_bytes);
    if (!out) return NULL;
    if (i > 0 && i == l->count_word) {
        fprintf(out, "%.*s%zu", (int)l->count_begin, word, l->processes);
        word += strlen(word);
    }
    while (*word) {
        if (strncmp(word, for_processes, sizeof for_processes - 1) == 0) {
            fprintf(out, "%zu", l->processes);
            word += sizeof for_processes - 1;
        } else if (strncmp(word, for_hosts, sizeof for_hosts - 1) == 0) {
            write_hosts(out, l);
            word += sizeof for_hosts - 1;
        } else if (strncmp(word, for_nodes, sizeof for_nodes - 1) == 0) {
            fprintf(out, "%zu", l->n_hosts);
            word += sizeof for_nodes - 1;
        } else {
            fputc(*word++, out);
        }
    }
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}

void cli_launch_free_words(char **words)
{
    for (char **word = words; word && *word; word++)
        free(*word);
    free(words);
}

char **cli_launch_words(const cli_launch *launch)
{
    static const char *const more[] = {"-x", CLI_JOB_VARIABLE};
    char **words = calloc(launch->n + 3, sizeof *words);
    size_t n = 0;
    bool complete = words != NULL;
    for (size_t i = 0; complete && i < launch->n; i++) {
        words[n] = fill(launch, i);
        complete = words[n++] != NULL;
        for (size_t k = 0; i == 0 && complete && launch->exports && k < 2; k++) {
            words[n] = strdup(more[k]);
            complete = words[n++] != NULL;
        }
    }
    if (complete) return words;
    cli_launch_free_words(words);
    return NULL;
}
