/* The files of the user's cache.  A file is a line of identification, a checksum and the content.
 */
#include "cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Hashing --------------------------------------------------------------------------------- */

/* FNV-1a with 128 bits (Fowler, Noll, Vo; RFC 9923): offset basis and prime 2^88 + 2^8 + 0x3b. */
dpt_hash dpt_hash_begin(void)
{
    return (dpt_hash){{UINT64_C(0x6c62272e07bb0142), UINT64_C(0x62b821756295c58d)}};
}

static uint64_t mul_high(uint64_t a, uint64_t b)
{
    const uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    const uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
    const uint64_t other = a0 * b1 + (uint32_t)middle;
    return a1 * b1 + (middle >> 32) + (other >> 32);
}

dpt_hash dpt_hash_add(dpt_hash hash, const void *bytes, size_t n_bytes)
{
    static const uint64_t prime_low = 0x13b;
    const unsigned char *at = bytes;
    uint64_t high = hash.word[0], low = hash.word[1];
    for (size_t i = 0; i < n_bytes; i++) {
        low ^= at[i];
        /* (high, low) * (2^88 + prime_low) modulo 2^128 */
        high = high * prime_low + mul_high(low, prime_low) + (low << 24);
        low *= prime_low;
    }
    return (dpt_hash){{high, low}};
}

dpt_hash dpt_hash_text(dpt_hash hash, const char *text)
{
    return dpt_hash_add(hash, text, strlen(text) + 1);
}

void dpt_hash_print(dpt_hash hash, char out[DPT_HASH_CHARS + 1])
{
    snprintf(out, DPT_HASH_CHARS + 1, "%016llx%016llx", (unsigned long long)hash.word[0],
             (unsigned long long)hash.word[1]);
}

/* ---- Paths ----------------------------------------------------------------------------------- */

static char *join(const char *folder, const char *inside, const char *name)
{
    const size_t n = strlen(folder) + strlen(inside) + strlen(name) + 1;
    char *path = malloc(n);
    if (path) snprintf(path, n, "%s%s%s", folder, inside, name);
    return path;
}

char *dpt_cache_path(const char *name)
{
    const char *cache = secure_getenv("XDG_CACHE_HOME");
    if (cache && cache[0] == '/') return join(cache, "/dptrain/", name);
    const char *home = secure_getenv("HOME");
    if (home && home[0] == '/') return join(home, "/.cache/dptrain/", name);
    return NULL;
}

/* Makes the folders of a path that are missing. */
static bool make_folders(char *path)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        const bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        *at = '/';
        if (!made) return false;
    }
    return true;
}

/* ---- Files ----------------------------------------------------------------------------------- */

typedef struct header {
    char magic[16]; /* "dptrain cache 1\n" */
    dpt_hash hash;
    uint64_t n_bytes;
} header;

static header header_of(const void *bytes, size_t n_bytes)
{
    header h = {.hash = dpt_hash_add(dpt_hash_begin(), bytes, n_bytes), .n_bytes = n_bytes};
    memcpy(h.magic, "dptrain cache 1\n", sizeof h.magic);
    return h;
}

/* Far more than any content. */
static const uint64_t max_bytes = (uint64_t)1 << 28;

static unsigned char *read_whole(FILE *file, size_t *n_bytes)
{
    header found;
    struct stat status;
    if (fread(&found, sizeof found, 1, file) != 1 || fstat(fileno(file), &status) != 0) return NULL;
    /* Compare with the size of the file first, because a damaged number could ask for all memory.
     */
    if (status.st_size < 0 || (uint64_t)status.st_size - sizeof found != found.n_bytes ||
        found.n_bytes > max_bytes)
        return NULL;
    const size_t n = (size_t)found.n_bytes;
    unsigned char *bytes = malloc(n + 1);
    if (!bytes) return NULL;
    if (fread(bytes, 1, n, file) == n) {
        const header expected = header_of(bytes, n);
        if (memcmp(&found, &expected, sizeof found) == 0) {
            bytes[n] = '\0'; /* so that text can be read as a string */
            *n_bytes = n;
            return bytes;
        }
    }
    free(bytes);
    return NULL;
}

/* Opens a file that this user alone can have written, because programs from the cache run on
   devices. */
static FILE *open_own(const char *path)
{
    struct stat status;
    /* O_NONBLOCK: a pipe is refused below and must not block here. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return NULL;
    FILE *file = NULL;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
        (status.st_mode & (S_IWGRP | S_IWOTH)) == 0)
        file = fdopen(fd, "rb");
    if (!file) (void)close(fd);
    return file;
}

unsigned char *dpt_cache_read(const char *name, size_t *n_bytes)
{
    char *path = dpt_cache_path(name);
    FILE *file = path ? open_own(path) : NULL;
    unsigned char *bytes = file ? read_whole(file, n_bytes) : NULL;
    if (file) fclose(file);
    free(path);
    return bytes;
}

static bool write_whole(const char *path, const void *bytes, size_t n_bytes)
{
    (void)unlink(path); /* of a killed process that had this number */
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (!file) {
        if (fd >= 0) (void)close(fd);
        return false;
    }
    const header h = header_of(bytes, n_bytes);
    const bool written = fwrite(&h, sizeof h, 1, file) == 1 &&
                         fwrite(bytes, 1, n_bytes, file) == n_bytes && fflush(file) == 0;
    return fclose(file) == 0 && written;
}

bool dpt_cache_writable(const char *folder)
{
    char *path = dpt_cache_path(folder);
    const bool writable = path && make_folders(path) && access(path, W_OK) == 0;
    free(path);
    return writable;
}

bool dpt_cache_write(const char *name, const void *bytes, size_t n_bytes)
{
    char *path = dpt_cache_path(name);
    char suffix[48];
    /* Unique among processes; threads of one write one file under a lock or with equal content. */
    snprintf(suffix, sizeof suffix, ".%ld.new", (long)getpid());
    char *temporary = path ? join(path, suffix, "") : NULL;
    bool done = temporary && make_folders(temporary) && write_whole(temporary, bytes, n_bytes) &&
                rename(temporary, path) == 0;
    if (!done && temporary) (void)remove(temporary);
    free(temporary);
    free(path);
    return done;
}

int dpt_cache_lock(const char *name)
{
    int lock = -1;
    char *path = dpt_cache_path(name);
    char *slash = path ? strrchr(path, '/') : NULL;
    if (slash && make_folders(path)) {
        *slash = '\0';
        lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (lock >= 0 && flock(lock, LOCK_EX) != 0) {
            (void)close(lock);
            lock = -1;
        }
    }
    free(path);
    return lock;
}

void dpt_cache_unlock(int lock)
{
    if (lock >= 0) (void)close(lock);
}
