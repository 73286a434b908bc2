/* Compiles programs, and keeps their binaries on disk. */
#include "compile.h"
#include "cache.h"
#include "source.h"
#include "tried.h"

#include <stdlib.h>
#include <string.h>

#define CACHE_FOLDER "opencl/programs/"

/* A program while it is compiled. */
typedef struct build {
    dpt_device *device;
    const dpt_program_key *key;
    dpt_cl_assembled source;
    char options[2 * DPT_MAX_OPTIONS + 128];
    dpt_cl_program *entry; /* its cache file and id are set by name_binary */
} build;

/* Names the binary in the cache, and numbers the program. */
static void name_binary(build *b)
{
    const dpt_cl_found *found = dpt_cl_device_of(b->device)->found;
    dpt_hash hash = dpt_hash_add(dpt_hash_begin(), b->source.bytes, b->source.n_bytes);
    hash = dpt_hash_text(hash, b->options);
    hash = dpt_hash_text(hash, found->platform_name);
    hash = dpt_hash_text(hash, found->name);
    hash = dpt_hash_text(hash, found->version);
    hash = dpt_hash_text(hash, found->driver);
    char digits[DPT_HASH_CHARS + 1];
    dpt_hash_print(hash, digits);
    snprintf(b->entry->file, sizeof b->entry->file, CACHE_FOLDER "%s.bin", digits);
    b->entry->id = hash.word[0] | 1;
}

static cl_int compile(const build *b, cl_program program)
{
    const dpt_cl_found *found = dpt_cl_device_of(b->device)->found;
    return clBuildProgram(program, 1, &found->id, b->options, NULL, NULL);
}

/* Returns NULL if the driver does not accept the binary. */
static cl_program load(const build *b, const unsigned char *binary, size_t n_bytes)
{
    const dpt_cl_device *cl = dpt_cl_device_of(b->device);
    cl_int code;
    cl_program program =
        clCreateProgramWithBinary(cl->context, 1, &cl->found->id, &n_bytes, &binary, NULL, &code);
    if (program && compile(b, program) == CL_SUCCESS) return program;
    if (program) (void)clReleaseProgram(program);
    return NULL;
}

/* Returns NULL if the cache has no binary or the driver does not accept it. */
static cl_program load_cached(build *b)
{
    size_t n_bytes = 0;
    unsigned char *binary = dpt_cache_read(b->entry->file, &n_bytes);
    if (!binary) return NULL;
    cl_program program = load(b, binary, n_bytes);
    free(binary);
    b->entry->stored = program != NULL;
    return program;
}

/* Writes the binary of a program that this process has compiled to the cache.  A query for a binary
   can take longer than the compilation: PoCL then compiles every kernel once more, for groups of
   any size.  For this reason only programs that will be used again are queried. */
static void store_own(const char *file, cl_program program)
{
    size_t n_bytes = 0;
    if (!dpt_cache_writable(CACHE_FOLDER)) return;
    if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof n_bytes, &n_bytes, NULL) !=
            CL_SUCCESS ||
        n_bytes == 0)
        return;
    unsigned char *binary = malloc(n_bytes);
    if (!binary) return;
    if (clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) == CL_SUCCESS)
        (void)dpt_cache_write(file, binary, n_bytes);
    free(binary);
}

/* Returns the first line of a log that contains "error", or else the first line. */
static const char *telling_line(const char *log, int *length)
{
    const char *line = log;
    for (const char *at = log; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        const size_t n = strcspn(at, "\n");
        const char *error = strstr(at, "error");
        if (!error || error >= at + n) continue;
        line = at;
        break;
    }
    *length = (int)strcspn(line, "\n");
    if (*length > 200) *length = 200;
    return line;
}

/* Writes a whole log to a file.  Returns its path, which the caller frees, or NULL. */
static char *keep_log(const build *b, const char *log)
{
    char name[DPT_HASH_CHARS + 32];
    snprintf(name, sizeof name, "%.*s.log", (int)(strlen(b->entry->file) - strlen(".bin")),
             b->entry->file);
    if (!dpt_cache_write(name, log, strlen(log))) return NULL;
    return dpt_cache_path(name);
}

/* Records that the compiler refused the source.  `log` is the build log or NULL. */
static dpt_status refused(const build *b, const char *log, cl_int code)
{
    const dpt_cl_found *found = dpt_cl_device_of(b->device)->found;
    int length = 0;
    const char *line = telling_line(log ? log : "", &length);
    char *path = log ? keep_log(b, log) : NULL;
    const dpt_status status =
        DPT_FAIL_NATIVE(&b->device->error, DPT_E_DEVICE, code,
                        "%.40s (driver %.40s) does not compile %s: %s: %.*s%s%.160s", found->name,
                        found->driver, b->key->file, dpt_cl_words(code), length, line,
                        path ? "; the whole log: " : "", path ? path : "");
    free(path);
    return status;
}

/* Reads the build log of a program and records the failure. */
static dpt_status build_failed(const build *b, cl_program program, cl_int code)
{
    const dpt_cl_found *found = dpt_cl_device_of(b->device)->found;
    char *log = NULL;
    size_t n_bytes = 0;
    if (clGetProgramBuildInfo(program, found->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &n_bytes) ==
            CL_SUCCESS &&
        n_bytes > 0)
        log = calloc(1, n_bytes + 1);
    if (log)
        (void)clGetProgramBuildInfo(program, found->id, CL_PROGRAM_BUILD_LOG, n_bytes, log, NULL);
    const dpt_status status = refused(b, log, code);
    free(log);
    return status;
}

static dpt_status compile_source(const build *b, cl_program *out)
{
    const dpt_cl_device *cl = dpt_cl_device_of(b->device);
    cl_int code;
    const char *lines = b->source.bytes;
    const cl_program program =
        clCreateProgramWithSource(cl->context, 1, &lines, &b->source.n_bytes, &code);
    if (!program) return DPT_CL_FAIL(&b->device->error, code, "clCreateProgramWithSource");
    code = compile(b, program);
    if (code != CL_SUCCESS) {
        const dpt_status status = build_failed(b, program, code);
        (void)clReleaseProgram(program);
        return status;
    }
    *out = program;
    return DPT_OK;
}

dpt_status dpt_cl_program_fatal(dpt_device *device, const char *what, const dpt_cl_trial *trial)
{
    const dpt_cl_device *cl = dpt_cl_device_of(device);
    /* While candidates are timed, this process and its device work on: other candidates may
       compile. */
    const dpt_status status = cl->tuner.trying ? DPT_E_DEVICE : DPT_E_DEVICE_LOST;
    return DPT_FAIL(&device->error, status,
                    "the compiler of %.40s (driver %.40s) did not survive %.40s: its process was "
                    "ended %.300s",
                    cl->found->name, cl->found->driver, what, trial->words);
}

/* Returns whether the helper shall return the binary.  The driver of a CPU makes a binary with more
   work than it takes to compile (see store_own).  Other drivers make it while they compile. */
static bool wants_binary(const dpt_device *device)
{
    const dpt_cl_device *cl = dpt_cl_device_of(device);
    if (!cl->found->is_cpu) return true;
    return !cl->tuner.trying && dpt_cache_writable(CACHE_FOLDER);
}

int dpt_cl_program_lock(const dpt_device *device)
{
    const bool is_cpu = dpt_cl_device_of(device)->found->is_cpu;
    return is_cpu ? dpt_cache_lock(CACHE_FOLDER "any") : -1;
}

static dpt_cl_trial try_build(const build *b, bool binary)
{
    const dpt_cl_text program = {.id = b->entry->id,
                                 .source = b->source.bytes,
                                 .n_source = b->source.n_bytes,
                                 .options = b->options,
                                 .wants_binary = binary};
    return dpt_cl_compiler_build(dpt_cl_device_of(b->device)->compiler, &program);
}

/* Compiles a program that is not in the cache: in the helper first, then in this process. */
static dpt_status compile_contained(const build *b, cl_program *out)
{
    const dpt_cl_trial trial = try_build(b, wants_binary(b->device));
    const bool keeps = !dpt_cl_device_of(b->device)->tuner.trying;
    dpt_status status = DPT_OK;
    if (trial.verdict == DPT_CL_BAD) status = refused(b, trial.bytes, trial.code);
    if (trial.verdict == DPT_CL_FATAL)
        status = dpt_cl_program_fatal(b->device, b->key->file, &trial);
    if (trial.verdict == DPT_CL_GOOD && trial.n_bytes > 0) {
        if (keeps) (void)dpt_cache_write(b->entry->file, trial.bytes, trial.n_bytes);
        b->entry->stored = keeps;
        *out = load(b, (const unsigned char *)trial.bytes, trial.n_bytes);
    }
    free(trial.bytes);
    if (status == DPT_OK && !*out) status = compile_source(b, out);
    return status;
}

static dpt_status begin_build(dpt_cl_program *entry, dpt_device *device, build *b)
{
    const dpt_cl_found *found = dpt_cl_device_of(device)->found;
    const dpt_program_key *key = &entry->key;
    const char *rounding = key->deterministic && found->divides_exactly
                               ? " -cl-fp32-correctly-rounded-divide-sqrt -DEXACT_BUILT_DIVISION=0"
                               : "";
    *b = (build){.device = device, .key = key, .entry = entry};
    DPT_TRY(dpt_cl_source_assemble(device, key->file, &b->source));
    snprintf(b->options, sizeof b->options,
             "-cl-std=CL1.2 -w%s -DGROUP=%u -DDEVICE_IS_CPU=%d %s %s", rounding, found->group_size,
             found->is_cpu, key->options, key->constants);
    name_binary(b);
    return DPT_OK;
}

/* Compiles a program under the lock, if another process has not compiled it meanwhile. */
static dpt_status make_alone(build *b, cl_program *out)
{
    const int lock = dpt_cl_program_lock(b->device);
    dpt_status status = DPT_OK;
    if (lock >= 0) *out = load_cached(b);
    if (!*out) status = compile_contained(b, out);
    dpt_cache_unlock(lock);
    return status;
}

dpt_status dpt_cl_program_make(dpt_device *device, dpt_cl_program *entry)
{
    build b;
    dpt_status status = begin_build(entry, device, &b);
    if (status == DPT_OK) {
        entry->program = load_cached(&b);
        if (!entry->program) status = make_alone(&b, &entry->program);
        dpt_cl_tried_read(entry);
    }
    free(b.source.bytes);
    return status;
}

void dpt_cl_program_store(dpt_device *device, dpt_cl_program *entry)
{
    build b;
    entry->stored = true; /* also where the driver returns no binary: it is not asked again */
    if (!dpt_cl_contained()) {
        store_own(entry->file, entry->program);
        return;
    }
    if (!dpt_cache_writable(CACHE_FOLDER)) return;
    if (begin_build(entry, device, &b) == DPT_OK) {
        const int lock = dpt_cl_program_lock(device);
        const dpt_cl_trial trial = try_build(&b, true);
        dpt_cache_unlock(lock);
        if (trial.verdict == DPT_CL_GOOD && trial.n_bytes > 0)
            (void)dpt_cache_write(entry->file, trial.bytes, trial.n_bytes);
        free(trial.bytes);
    }
    free(b.source.bytes);
}

dpt_status dpt_cl_program_send(dpt_device *device, dpt_cl_program *program, dpt_cl_trial *out)
{
    build b;
    const dpt_status status = begin_build(program, device, &b);
    if (status == DPT_OK) *out = try_build(&b, false);
    free(b.source.bytes);
    return status;
}
