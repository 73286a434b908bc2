/* Remembers launches in a file of the cache, and in kernels (tried.h). */
#include "tried.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES = DPT_HASH_CHARS + 32, LINE_BYTES = 256 };

static void name_file(const dpt_cl_program *program, char out[FILE_BYTES])
{
    snprintf(out, FILE_BYTES, "%.*s.tried", (int)(strlen(program->file) - strlen(".bin")),
             program->file);
}

void dpt_cl_tried_read(dpt_cl_program *program)
{
    char file[FILE_BYTES];
    size_t n_bytes = 0;
    name_file(program, file);
    free(program->tried);
    program->tried = (char *)dpt_cache_read(file, &n_bytes);
}

static void print_line(const dpt_kernel *kernel, const dpt_cl_launch_size *size,
                       char out[LINE_BYTES])
{
    snprintf(out, LINE_BYTES, "%.128s %zu %zu %zu %d\n", kernel->name, size->group[0],
             size->group[1], size->group[2], size->wide);
}

/* Whether the line, with its end, is one of the lines. */
static bool has_line(const char *lines, const char *line)
{
    const char *found = lines;
    while (found && (found = strstr(found, line))) {
        if (found == lines || found[-1] == '\n') return true;
        found++;
    }
    return false;
}

/* Adds a line to what other processes have written meanwhile. */
static void write_down(dpt_cl_program *program, const char *line)
{
    char file[FILE_BYTES];
    name_file(program, file);
    const int lock = dpt_cache_lock(file);
    dpt_cl_tried_read(program);
    if (!has_line(program->tried, line)) {
        const size_t n = program->tried ? strlen(program->tried) : 0, more = strlen(line);
        char *grown = realloc(program->tried, n + more + 1);
        if (grown) {
            memcpy(grown + n, line, more + 1);
            program->tried = grown;
            (void)dpt_cache_write(file, grown, n + more);
        }
    }
    dpt_cache_unlock(lock);
}

static bool is_known(const dpt_kernel *kernel, const dpt_cl_launch_size *size)
{
    for (size_t i = 0; i < kernel->n_launches; i++)
        if (memcmp(kernel->launches[i].group, size->group, sizeof size->group) == 0 &&
            kernel->launches[i].wide == size->wide)
            return true;
    return false;
}

/* Without memory it is tried once more. */
static void remember(dpt_kernel *kernel, const dpt_cl_launch_size *size)
{
    dpt_cl_launch_size *grown = realloc(kernel->launches, (kernel->n_launches + 1) * sizeof *grown);
    if (!grown) return;
    kernel->launches = grown;
    kernel->launches[kernel->n_launches++] = *size;
}

bool dpt_cl_tried_has(dpt_kernel *kernel, const dpt_cl_launch_size *size)
{
    char line[LINE_BYTES];
    if (is_known(kernel, size)) return true;
    print_line(kernel, size, line);
    if (!has_line(kernel->program->tried, line)) return false;
    remember(kernel, size);
    return true;
}

void dpt_cl_tried_add(dpt_kernel *kernel, const dpt_cl_launch_size *size, bool keep)
{
    char line[LINE_BYTES];
    print_line(kernel, size, line);
    if (keep) write_down(kernel->program, line);
    remember(kernel, size);
}
