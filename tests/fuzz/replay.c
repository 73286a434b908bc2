/* Gives every file of a folder to a fuzzer's entry point, with any compiler.
   Usage: replay-NAME FOLDER...  Fails if there is no file. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_BYTES = 1 << 24, MAX_PATH = 4096 };

/* Exactly as many bytes as the file has, so that a read past the end is one past the block. */
static int replay_file(const char *path)
{
    int result = 1;
    FILE *file = fopen(path, "rb");
    long n_bytes = -1;
    uint8_t *data = NULL;
    if (!file || fseek(file, 0, SEEK_END) != 0) goto done;
    n_bytes = ftell(file);
    if (n_bytes < 0 || n_bytes > MAX_BYTES || fseek(file, 0, SEEK_SET) != 0) goto done;
    data = malloc(n_bytes > 0 ? (size_t)n_bytes : 1);
    if (!data || fread(data, 1, (size_t)n_bytes, file) != (size_t)n_bytes) goto done;
    result = LLVMFuzzerTestOneInput(data, (size_t)n_bytes);
done:
    if (result != 0) printf("FAIL %s\n", path);
    free(data);
    if (file) fclose(file);
    return result;
}

static int replay_folder(const char *folder, size_t *n_files)
{
    int result = 0;
    DIR *entries = opendir(folder);
    if (!entries) {
        printf("FAIL %s: no such folder\n", folder);
        return 1;
    }
    for (const struct dirent *entry; (entry = readdir(entries));) {
        char path[MAX_PATH];
        struct stat status;
        const int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (length < 0 || length >= MAX_PATH || stat(path, &status) != 0 ||
            !S_ISREG(status.st_mode))
            continue;
        ++*n_files;
        if (replay_file(path) != 0) result = 1;
    }
    closedir(entries);
    return result;
}

int main(int argc, char **argv)
{
    size_t n_files = 0;
    int result = 0;
    for (int i = 1; i < argc; i++) {
        if (replay_folder(argv[i], &n_files) != 0) result = 1;
    }
    if (n_files == 0) puts("FAIL: no file to replay");
    printf("%zu files replayed\n", n_files);
    return n_files == 0 ? 1 : result;
}
