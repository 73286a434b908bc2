/* Assembles, compiles, loads and keeps programs and their kernels. */
#include "program.h"
#include "cache.h"
#include "contain.h"
#include "tried.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CACHE_FOLDER "opencl/programs/"

struct dpt_cl_programs {
    dpt_cl_program *first;
};

dpt_status dpt_cl_programs_create(dpt_device *device, dpt_cl_programs **out)
{
    dpt_cl_programs *programs = calloc(1, sizeof *programs);
    if (!programs) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for programs");
    *out = programs;
    return DPT_OK;
}

static void destroy_entry(dpt_cl_program *entry)
{
    while (entry->kernels) {
        dpt_kernel *kernel = entry->kernels;
        entry->kernels = kernel->next;
        (void)clReleaseKernel(kernel->handle);
        free(kernel->name);
        free(kernel->launches);
        free(kernel);
    }
    if (entry->program) (void)clReleaseProgram(entry->program);
    free(entry->tried);
    free(entry);
}

void dpt_cl_programs_destroy(dpt_cl_programs *programs)
{
    if (!programs) return;
    while (programs->first) {
        dpt_cl_program *entry = programs->first;
        programs->first = entry->next;
        destroy_entry(entry);
    }
    free(programs);
}

/* ---- Source text ----------------------------------------------------------------------------- */

enum { MAX_INCLUDED = 32 };

/* A text that grows, with the files that are in it already. */
typedef struct text {
    char *bytes;
    size_t n, capacity;
    const dpt_cl_source *included[MAX_INCLUDED];
    size_t n_included;
    bool failed;
} text;

static void append(text *t, const void *bytes, size_t n)
{
    if (t->n + n + 1 > t->capacity) {
        const size_t capacity = 2 * (t->n + n) + 4096;
        char *grown = realloc(t->bytes, capacity);
        if (!grown) {
            t->failed = true;
            return;
        }
        t->bytes = grown;
        t->capacity = capacity;
    }
    memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
    t->bytes[t->n] = '\0';
}

static const dpt_cl_source *find_source(const char *name, size_t length)
{
    for (const dpt_cl_source *source = dpt_cl_sources; source->name; source++)
        if (strlen(source->name) == length && memcmp(source->name, name, length) == 0)
            return source;
    return NULL;
}

static bool included(text *t, const dpt_cl_source *source)
{
    for (size_t i = 0; i < t->n_included; i++)
        if (t->included[i] == source) return true;
    if (t->n_included == MAX_INCLUDED) {
        t->failed = true;
        return true;
    }
    t->included[t->n_included++] = source;
    return false;
}

/* The NAME of a line #include "NAME", or NULL. */
static const char *include_name(const char *line, size_t n, size_t *length)
{
    static const char directive[] = "#include \"";
    const size_t skip = sizeof directive - 1;
    if (n <= skip || memcmp(line, directive, skip) != 0) return NULL;
    const char *quote = memchr(line + skip, '"', n - skip);
    if (!quote) return NULL;
    *length = (size_t)(quote - line) - skip;
    return line + skip;
}

/* A source with each header once, where it is included first. */
static void append_source(text *t, const dpt_cl_source *source)
{
    const char *at = (const char *)source->text, *end = at + source->n_bytes;
    char place[DPT_CL_TEXT_BYTES];
    if (included(t, source)) return;
    for (size_t line = 1; at < end && !t->failed; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const size_t n = stop ? (size_t)(stop - at) + 1 : (size_t)(end - at);
        size_t length = 0;
        const char *name = include_name(at, n, &length);
        const dpt_cl_source *header = name ? find_source(name, length) : NULL;
        if (header) append_source(t, header);
        if (!header) append(t, at, n);
        if (header || line == 1) {
            const int written =
                snprintf(place, sizeof place, "#line %zu \"%s\"\n", line + 1, source->name);
            append(t, place, written > 0 ? (size_t)written : 0);
        }
        at += n;
    }
}

static dpt_status assemble(dpt_device *device, const char *file, text *out)
{
    const dpt_cl_source *source = find_source(file, strlen(file));
    if (!source)
        return DPT_FAIL(&device->error, DPT_E_INTERNAL, "no kernel source %s in this build", file);
    append_source(out, source);
    if (out->failed || !out->bytes)
        return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for kernel source");
    return DPT_OK;
}

/* ---- Building -------------------------------------------------------------------------------- */

/* One program on its way. */
typedef struct build {
    dpt_device *device;
    const dpt_program_key *key;
    text source;
    char options[2 * DPT_MAX_OPTIONS + 128];
    dpt_cl_program *entry; /* its cache file and id are set by name_binary */
} build;

static void name_binary(build *b)
{
    const dpt_cl_found *found = dpt_cl_device_of(b->device)->found;
    dpt_hash hash = dpt_hash_add(dpt_hash_begin(), b->source.bytes, b->source.n);
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

/* NULL: the driver does not take it any more. */
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

/* NULL: not in the cache, or the driver does not take it any more. */
static cl_program load_cached(const build *b)
{
    size_t n_bytes = 0;
    unsigned char *binary = dpt_cache_read(b->entry->file, &n_bytes);
    if (!binary) return NULL;
    cl_program program = load(b, binary, n_bytes);
    free(binary);
    return program;
}

/* Asking for a binary can take longer than compiling: PoCL then compiles every kernel once more,
   for groups of any size.  So only programs that will be used again are asked for theirs. */
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

/* The first line of a log that speaks of an error, or its first line at all. */
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

/* Keeps a log where a person can read it whole; the path, or NULL. */
static char *keep_log(const build *b, const char *log)
{
    char name[DPT_HASH_CHARS + 32];
    snprintf(name, sizeof name, "%.*s.log", (int)(strlen(b->entry->file) - strlen(".bin")),
             b->entry->file);
    if (!dpt_cache_write(name, log, strlen(log))) return NULL;
    return dpt_cache_path(name);
}

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
        clCreateProgramWithSource(cl->context, 1, &lines, &b->source.n, &code);
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
    /* Of candidates that are timed the others may be well: this process and its device are. */
    const dpt_status status = cl->tuner.trying ? DPT_E_DEVICE : DPT_E_DEVICE_LOST;
    return DPT_FAIL(&device->error, status,
                    "the compiler of %.40s (driver %.40s) did not survive %.40s: its process was "
                    "ended %.300s",
                    cl->found->name, cl->found->driver, what, trial->words);
}

/* A CPU's driver makes a binary only with more work than it takes to compile (see store_own); of
   others it is a by-product. */
static bool wants_binary(const dpt_device *device)
{
    const dpt_cl_device *cl = dpt_cl_device_of(device);
    if (!cl->found->is_cpu) return true;
    return !cl->tuner.trying && dpt_cache_writable(CACHE_FOLDER);
}

static dpt_cl_trial try_build(const build *b, bool binary)
{
    const dpt_cl_text program = {.id = b->entry->id,
                                 .source = b->source.bytes,
                                 .n_source = b->source.n,
                                 .options = b->options,
                                 .wants_binary = binary};
    return dpt_cl_compiler_build(dpt_cl_device_of(b->device)->compiler, &program);
}

/* What is not in the cache is compiled in the helper first. */
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
    *b = (build){.device = device, .key = key, .entry = entry};
    DPT_TRY(assemble(device, key->file, &b->source));
    snprintf(b->options, sizeof b->options, "-cl-std=CL1.2 -w -DGROUP=%u -DDEVICE_IS_CPU=%d %s %s",
             found->group_size, found->is_cpu, key->options, key->constants);
    name_binary(b);
    return DPT_OK;
}

static dpt_status make_program(dpt_device *device, dpt_cl_program *entry)
{
    build b;
    dpt_status status = begin_build(entry, device, &b);
    if (status == DPT_OK) {
        entry->program = load_cached(&b);
        entry->stored = entry->program != NULL;
        dpt_cl_tried_read(entry);
        if (!entry->program) status = compile_contained(&b, &entry->program);
    }
    free(b.source.bytes);
    return status;
}

/* Puts a program that was compiled only to be timed into the cache. */
static void store(dpt_device *device, dpt_cl_program *entry)
{
    build b;
    entry->stored = true; /* or it cannot be had */
    if (!dpt_cl_contained()) {
        store_own(entry->file, entry->program);
        return;
    }
    if (!dpt_cache_writable(CACHE_FOLDER)) return;
    if (begin_build(entry, device, &b) == DPT_OK) {
        const dpt_cl_trial trial = try_build(&b, true);
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

/* ---- Kernels --------------------------------------------------------------------------------- */

static dpt_status find_program(dpt_device *device, const dpt_program_key *key, dpt_cl_program **out)
{
    dpt_cl_programs *programs = dpt_cl_device_of(device)->programs;
    dpt_cl_program *entry = programs->first;
    while (entry && (strcmp(entry->key.file, key->file) != 0 ||
                     strcmp(entry->key.options, key->options) != 0 ||
                     strcmp(entry->key.constants, key->constants) != 0))
        entry = entry->next;
    if (!entry) {
        entry = calloc(1, sizeof *entry);
        if (!entry) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for a program");
        entry->key = *key;
        const dpt_status status = make_program(device, entry);
        if (status != DPT_OK) {
            destroy_entry(entry);
            return status;
        }
        entry->next = programs->first;
        programs->first = entry;
    }
    *out = entry;
    return DPT_OK;
}

static dpt_status make_kernel(dpt_device *device, dpt_cl_program *program, const char *name,
                              dpt_kernel **out)
{
    cl_int code;
    dpt_kernel *entry = calloc(1, sizeof *entry);
    if (entry) entry->name = strdup(name);
    if (!entry || !entry->name) {
        free(entry);
        return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for a kernel");
    }
    entry->program = program;
    entry->handle = clCreateKernel(program->program, name, &code);
    if (!entry->handle) {
        free(entry->name);
        free(entry);
        return DPT_CL_FAIL(&device->error, code, "clCreateKernel");
    }
    entry->next = program->kernels;
    program->kernels = entry;
    *out = entry;
    return DPT_OK;
}

dpt_status dpt_kernel_get(dpt_device *device, const dpt_program_key *key, const char *name,
                          dpt_kernel **out)
{
    dpt_cl_program *program = NULL;
    DPT_TRY(find_program(device, key, &program));
    if (!program->stored && !dpt_cl_device_of(device)->tuner.trying) store(device, program);
    for (dpt_kernel *entry = program->kernels; entry; entry = entry->next) {
        if (strcmp(entry->name, name) != 0) continue;
        *out = entry;
        return DPT_OK;
    }
    return make_kernel(device, program, name, out);
}
