/* Feeds arbitrary bytes to the reader of cache files, and arbitrary text to the reader of
   remembered choices.  The text is put into a cache file with a valid checksum, because a fuzzer
   does not find valid checksums.  Both readers are included here, because their functions are
   static. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "fuzz.h"

#include "common/cache.c"
#include "common/choices.c"

#include <stdio.h>
#include <sys/mman.h>

/* A file in memory with these bytes, opened for reading at its beginning. */
static FILE *open_bytes(const void *head, size_t n_head, const void *data, size_t size)
{
    const int fd = memfd_create("cache", MFD_CLOEXEC);
    require(fd >= 0);
    require(write(fd, head, n_head) == (ssize_t)n_head && write(fd, data, size) == (ssize_t)size);
    require(lseek(fd, 0, SEEK_SET) == 0);
    FILE *file = fdopen(fd, "rb");
    require(file != NULL);
    return file;
}

/* The content of a file, or NULL. */
static unsigned char *read_bytes(const void *head, size_t n_head, const void *data, size_t size,
                                 size_t *n)
{
    FILE *file = open_bytes(head, n_head, data, size);
    unsigned char *bytes = read_whole(file, n);
    fclose(file);
    return bytes;
}

static void check_recall(const char *lines, const char *key)
{
    static const char *const candidates[] = {"direct", "winograd4", "local", "a"};
    const dpt_choice choice = {.key = "shape",
                               .candidates = candidates,
                               .n_candidates = sizeof candidates / sizeof *candidates};
    answer found = {.best = SIZE_MAX};
    memset(found.measured, 'x', sizeof found.measured);
    if (!recall(lines, &choice, key, &found)) return;
    require(found.best < choice.n_candidates);
    require(memchr(found.measured, '\0', sizeof found.measured) && !strchr(found.measured, '\n'));
    /* Written down in front of the others it is what is found. */
    char *all = with_line(lines, &choice, key, &found);
    answer again = {.best = SIZE_MAX};
    require(all && recall(all, &choice, key, &again));
    require(again.best == found.best && strcmp(again.measured, found.measured) == 0);
    free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n = 0;
    /* A plain file: sound if and only if its first bytes are those of its content. */
    unsigned char *bytes = read_bytes("", 0, data, size, &n);
    require(!bytes || (n + sizeof(header) == size && memcmp(bytes, data + sizeof(header), n) == 0));
    free(bytes);
    const header sound = header_of(data, size);
    bytes = read_bytes(&sound, sizeof sound, data, size, &n);
    require(bytes && n == size && memcmp(bytes, data, size) == 0 && bytes[n] == '\0');
    check_recall((const char *)bytes, "shape of 01234567");
    check_recall((const char *)bytes, "a");
    check_recall((const char *)bytes, "");
    free(bytes);
    return 0;
}
