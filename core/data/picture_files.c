/* Tells pictures from other files (picture_files.h). */
#include "data/picture_files.h"
#include "data/image.h"

#include "dptrain.h"

#include "base/print.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_BYTES = 32 };

bool dpti_is_picture_name(const char *name)
{
    static const char *const ends[] = {"jpg", "jpeg", "jpe", "jfif", "png", "ppm",  "pgm",
                                       "pnm", "bmp",  "dib", "gif",  "tif", "tiff", "webp"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof ends / sizeof *ends; i++)
        if (strcasecmp(dot + 1, ends[i]) == 0) return true;
    return false;
}

/* A pipe is not waited for. */
bool dpti_begins_as_picture(const char *path, bool otherwise)
{
    uint8_t bytes[FIRST_BYTES];
    const int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat about;
    const bool regular = file >= 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode);
    const ssize_t n = regular ? read(file, bytes, sizeof bytes) : -1;
    if (file >= 0) close(file);
    return n < 0 ? otherwise : dpti_image_format_of(bytes, (size_t)n) != DPTI_IMAGE_UNKNOWN;
}

bool dpt_is_picture(const char *path)
{
    return path && dpti_begins_as_picture(path, false);
}

static bool may_be_picture(const char *folder, const char *name)
{
    char *path = dpti_format("%s/%s", folder, name);
    const bool may = !path || dpti_begins_as_picture(path, true);
    free(path);
    return may;
}

size_t dpti_keep_pictures(const char *folder, dpti_listing *files)
{
    const size_t before = files->count;
    size_t n = 0;
    for (size_t i = 0; i < before; i++) {
        char *name = files->names[i];
        if (dpti_is_picture_name(name) || may_be_picture(folder, name))
            files->names[n++] = name;
        else
            free(name);
    }
    files->count = n;
    return before - n;
}
