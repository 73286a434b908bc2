/* Small pictures of one colour, for tests of what reads pictures; t->user is the context. */
#ifndef DPT_TEST_SMALL_PICTURES_H
#define DPT_TEST_SMALL_PICTURES_H

#include "data_files.h"

#include <png.h>

enum { MAX_SIDE = 16, MAX_PICTURE = MAX_SIDE * MAX_SIDE * 3 };

/* A picture of one colour; red green blue are value, value + 1, value + 2. */
typedef struct picture {
    const char *directory, *name;
    uint8_t value;
    size_t height, width;
} picture;

static inline void write_pixels(test *t, const char *path, const uint8_t *rgb, size_t height,
                                size_t width)
{
    png_image image = {.version = PNG_IMAGE_VERSION, .format = PNG_FORMAT_RGB};
    image.height = (png_uint_32)height;
    image.width = (png_uint_32)width;
    CHECK(png_image_write_to_file(&image, path, 0, rgb, 0, NULL) != 0);
}

static inline void write_picture(test *t, const picture *p)
{
    uint8_t rgb[MAX_PICTURE];
    char path[256];
    REQUIRE(p->height <= MAX_SIDE && p->width <= MAX_SIDE);
    for (size_t i = 0; i < p->height * p->width * 3; i++)
        rgb[i] = (uint8_t)(p->value + i % 3);
    make_folder(t, p->directory);
    snprintf(path, sizeof path, "%s/%s", p->directory, p->name);
    write_pixels(t, path, rgb, p->height, p->width);
}

static inline void write_square(test *t, const char *directory, const char *name, uint8_t value)
{
    write_picture(t, &(picture){directory, name, value, 2, 2});
}

/* Two classes, a picture each in both parts. */
static inline void write_small(test *t, const char *directory)
{
    static const char *const folders[] = {"train/one", "train/two", "test/one", "test/two"};
    for (size_t i = 0; i < 4; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", directory, folders[i]);
        write_square(t, path, "0.png", (uint8_t)(10 * i));
    }
}
/* Images that are read on demand are not compared. */
static inline void check_values(test *t, const dpt_dataset *data, const uint8_t *values,
                                const uint8_t *labels)
{
    const uint8_t *images = data->images;
    const size_t n = data->height * data->width * data->channels;
    for (size_t i = 0; i < data->count; i++) {
        CHECK_SIZE((size_t)data->labels[i], labels[i]);
        for (size_t k = 0; k < n && !data->reader; k++)
            CHECK_SIZE(images[i * n + k], values[i] + (data->channels == 3 ? k % 3 : 1));
    }
}
/* What a context tells. */
typedef struct notices {
    size_t n;
    char last[256];
} notices;

static inline void note(void *user, const char *line)
{
    notices *all = user;
    all->n++;
    snprintf(all->last, sizeof all->last, "%s", line);
}

#endif
