/* Makes a checkpoint folder with arbitrary entries and treats it as a resumed training does: lists
   it, reads every checkpoint, removes leftovers, makes room for new files, renames the files of an
   ended training.  Nothing outside the folder may change.

   The input is a list of entries: a byte for the kind of the entry and of its name, a byte for the
   length of its name, the name, a byte for the length of its content, the content. */
#include "checkpoint/run_state.h"
#include "checkpoint/snapshot.h"
#include "fuzz.h"
#include "io/file.h"
#include "io/folder.h"
#include "io/safetensors.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_ENTRIES = 8, MAX_NAME = 64, MAX_BYTES = 1 << 16 };

enum { IS_FILE, IS_SPARSE, IS_LINK_OUT, IS_LINK_IN, IS_FOLDER, IS_PIPE, IS_LOOP, N_KINDS };

static int base = -1;
static char root[64], folder[80];
static const char outside_text[] = "not to be touched";

static void write_all(int at, const char *name, const void *bytes, size_t n)
{
    const int fd = openat(at, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    require(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    close(fd);
}

static void empty(int at)
{
    DIR *directory = fdopendir(openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    require(directory != NULL);
    for (const struct dirent *e; (e = readdir(directory));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            unlinkat(at, e->d_name, 0) != 0)
            require(unlinkat(at, e->d_name, AT_REMOVEDIR) == 0);
    closedir(directory);
}

static void clean_up(void)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) empty(fd);
    close(fd);
    (void)rmdir(folder);
    (void)unlinkat(base, "outside", 0);
    (void)rmdir(root);
}

static void prepare(void)
{
    if (base >= 0) return;
    snprintf(root, sizeof root, "/dev/shm/dptrain-fuzz-XXXXXX");
    if (!mkdtemp(root)) {
        snprintf(root, sizeof root, "/tmp/dptrain-fuzz-XXXXXX");
        require(mkdtemp(root) != NULL);
    }
    snprintf(folder, sizeof folder, "%s/folder", root);
    require(mkdir(folder, 0700) == 0);
    base = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    require(base >= 0);
    write_all(base, "outside", outside_text, sizeof outside_text);
    require(atexit(clean_up) == 0);
}

/* ---- Making
 * -------------------------------------------------------------------------------------- */

typedef struct reader {
    const uint8_t *data;
    size_t size;
} reader;

static size_t take_byte(reader *r)
{
    if (r->size == 0) return 0;
    r->size--;
    return *r->data++;
}

/* As it stands, or a number as the name of a checkpoint, set aside or not, or of a
   leftover. */
static void make_name(reader *r, size_t how, char name[MAX_NAME])
{
    char text[MAX_NAME];
    size_t n = take_byte(r) % (MAX_NAME / 2);
    if (n > r->size) n = r->size;
    for (size_t i = 0; i < n; i++)
        text[i] = r->data[i] == '/' || r->data[i] == '\0' ? '0' : (char)r->data[i];
    text[n] = '\0';
    r->data += n;
    r->size -= n;
    switch (how % 4) {
    case 0: snprintf(name, MAX_NAME, "%s", n ? text : "0"); break;
    case 1: snprintf(name, MAX_NAME, "checkpoint-%.24s.safetensors", text); break;
    case 2: snprintf(name, MAX_NAME, ".dptrain-%.24s.tmp", text); break;
    default:
        snprintf(name, MAX_NAME, "%scheckpoint-%09zu.safetensors", how / 4 % 2 ? "old-" : "", n);
        break;
    }
}

static void make_file(int at, const char *name, reader *r)
{
    size_t n = take_byte(r) * 8;
    if (n > r->size) n = r->size;
    write_all(at, name, r->data, n);
    r->data += n;
    r->size -= n;
}

static void make_entry(int at, reader *r)
{
    char name[MAX_NAME];
    const size_t what = take_byte(r);
    make_name(r, what / N_KINDS, name);
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return;
    (void)unlinkat(at, name, 0);
    struct stat about;
    if (fstatat(at, name, &about, AT_SYMLINK_NOFOLLOW) == 0) return; /* a folder of that name */
    switch (what % N_KINDS) {
    case IS_FILE: make_file(at, name, r); break;
    case IS_SPARSE: {
        write_all(at, name, "", 0);
        const int fd = openat(at, name, O_WRONLY | O_CLOEXEC);
        require(fd >= 0);
        (void)ftruncate(fd, (off_t)1 << (20 + take_byte(r) % 20));
        close(fd);
        break;
    }
    case IS_LINK_OUT: (void)symlinkat("../outside", at, name); break;
    case IS_LINK_IN: (void)symlinkat("checkpoint-000000001.safetensors", at, name); break;
    case IS_FOLDER: (void)mkdirat(at, name, 0700); break;
    case IS_PIPE: (void)mkfifoat(at, name, 0600); break;
    default: (void)symlinkat(name, at, name); break;
    }
}

/* ---- Looking at it
 * ------------------------------------------------------------------------------- */

/* What a resumed training reads: no more than it may, and only what is sealed. */
static void check_checkpoint(const char *path)
{
    dpt_error error = {.status = DPT_OK};
    dpti_safetensors *file = NULL;
    const dpt_status status = dpti_safetensors_read_sealed(path, MAX_BYTES, &file, &error);
    if (status == DPT_OK) {
        struct stat about;
        require(stat(path, &about) == 0 && about.st_size <= MAX_BYTES && S_ISREG(about.st_mode));
        dpti_safetensors_close(file);
    } else {
        require(status == DPT_E_FORMAT || status == DPT_E_IO || status == DPT_E_NOT_FOUND);
        require(error.message[0] != '\0');
    }
    free(dpti_safetensors_peek(path, MAX_BYTES, "dptrain"));
    const bool ended = dpti_checkpoint_ended(path, MAX_BYTES, NULL);
    require(!ended || status == DPT_OK);
}

static void check_list(void)
{
    dpt_error error = {.status = DPT_OK};
    size_t *numbers = NULL, n = 0;
    require(dpti_folder_list(folder, &numbers, &n, &error) == DPT_OK && n <= MAX_ENTRIES);
    for (size_t i = 0; i < n; i++) {
        struct stat about;
        require(i == 0 || numbers[i] < numbers[i - 1]);
        char *path = dpti_folder_path(folder, numbers[i]);
        require(path && lstat(path, &about) == 0); /* it is the name of an entry */
        check_checkpoint(path);
        free(path);
    }
    free(numbers);
}

/* As a training that begins where another one has ended: what stays is a folder's name. */
static void check_set_aside(int at)
{
    dpt_error error = {.status = DPT_OK};
    size_t *numbers = NULL, n = 0;
    const dpt_status status = dpti_folder_set_aside(folder, &error);
    require(status == DPT_OK || (status == DPT_E_IO && error.message[0] != '\0'));
    require(dpti_folder_list(folder, &numbers, &n, &error) == DPT_OK);
    const bool best = faccessat(at, "best.safetensors", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    require((n > 0 || best) == (status != DPT_OK));
    free(numbers);
    if (status == DPT_OK) {
        dpti_folder_put_back(folder);
        require(dpti_folder_count_aside(folder) == 0);
        require(dpti_folder_set_aside(folder, &error) == DPT_OK);
    }
    dpti_folder_delete_aside(folder);
    for (size_t i = 0; i < MAX_NAME / 2; i++) {
        char name[MAX_NAME];
        struct stat about;
        snprintf(name, sizeof name, "old-checkpoint-%09zu.safetensors", i);
        require(fstatat(at, name, &about, AT_SYMLINK_NOFOLLOW) != 0 || S_ISDIR(about.st_mode));
    }
}

/* A new file takes the place of whatever has its name, but for a folder. */
static void check_write(int at, const char *name)
{
    char path[160];
    struct stat before;
    dpti_new_file file;
    dpt_error error = {.status = DPT_OK};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const bool blocked =
        fstatat(at, name, &before, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(before.st_mode);
    dpti_folder_claim(path);
    const dpt_status status = dpti_new_file_create(path, &file, &error);
    require((status == DPT_OK) == !blocked);
    if (status != DPT_OK) return;
    require(dpti_new_file_write(&file, "new", 3, &error) == DPT_OK);
    require(dpti_new_file_commit(&file, &error) == DPT_OK);
    require(fstatat(at, name, &before, AT_SYMLINK_NOFOLLOW) == 0);
    require(S_ISREG(before.st_mode) && before.st_size == 3);
}

static void check_outside(void)
{
    char text[64];
    const int fd = openat(base, "outside", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    require(fd >= 0 && read(fd, text, sizeof text) == (ssize_t)sizeof outside_text);
    require(memcmp(text, outside_text, sizeof outside_text) == 0);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    reader r = {.data = data, .size = size};
    prepare();
    const int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    require(at >= 0);
    for (size_t i = 0; i < MAX_ENTRIES && r.size > 0; i++)
        make_entry(at, &r);
    (void)dpti_folder_clean(folder);
    check_list();
    check_write(at, "model.safetensors");
    check_write(at, "checkpoint-000000001.safetensors");
    check_set_aside(at);
    check_outside();
    empty(at);
    close(at);
    return 0;
}
