/* Tests where the orientation of a camera is found in files, and how pictures are turned by it. */
#include "data/exif.h"
#include "data/picture.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES = 512 };

/* EXIF data with this orientation, in one of both byte orders, behind another tag. */
static size_t make_exif(uint8_t *out, bool little, unsigned orientation)
{
    static const uint16_t words[] = {42,     0, 8, 2,       /* header, directory at 8 */
                                     0x0100, 3, 0, 1, 9, 0, /* another tag */
                                     0x0112, 3, 0, 1, 0, 0, /* the orientation */
                                     0,      0};
    size_t n = 0;
    memcpy(out, little ? "II" : "MM", 2);
    n += 2;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        unsigned word = i == 14 ? orientation : words[i];
        /* Numbers of four bytes have their halves in the file's order too. */
        if (little && (i == 1 || i == 2)) word = words[3 - i];
        if (little && (i == 6 || i == 7 || i == 12 || i == 13)) word = words[i ^ 1];
        out[n + (little ? 0 : 1)] = (uint8_t)word;
        out[n + (little ? 1 : 0)] = (uint8_t)(word >> 8);
        n += 2;
    }
    return n;
}

static void put(uint8_t *file, size_t *n, const void *bytes, size_t n_bytes)
{
    memcpy(file + *n, bytes, n_bytes);
    *n += n_bytes;
}

static size_t make_jpeg(uint8_t *out, const uint8_t *exif, size_t n_exif)
{
    size_t n = 0;
    put(out, &n,
        "\xff\xd8\xff\xe0\0\x05"
        "abc\xff\xff\xfe\0\2",
        14);
    put(out, &n, "\xff\xe1", 2);
    put(out, &n, (uint8_t[]){0, (uint8_t)(n_exif + 8)}, 2);
    put(out, &n, "Exif\0\0", 6);
    put(out, &n, exif, n_exif);
    put(out, &n, "\xff\xda\0\2", 4);
    return n;
}

static size_t make_png(uint8_t *out, const uint8_t *exif, size_t n_exif)
{
    size_t n = 0;
    put(out, &n, "\x89PNG\r\n\x1a\n\0\0\0\2abcd12crc-", 22);
    put(out, &n, (uint8_t[]){0, 0, 0, (uint8_t)n_exif}, 4);
    put(out, &n, "eXIf", 4);
    put(out, &n, exif, n_exif);
    put(out, &n, "crc-", 4);
    return n;
}

static size_t make_webp(uint8_t *out, const uint8_t *exif, size_t n_exif)
{
    size_t n = 0;
    put(out, &n, "RIFF\0\0\0\0WEBPabcd\3\0\0\0xyz\0", 24);
    put(out, &n, "EXIF", 4);
    put(out, &n, (uint8_t[]){(uint8_t)n_exif, 0, 0, 0}, 4);
    put(out, &n, exif, n_exif);
    return n;
}

static size_t make_tiff(uint8_t *out, const uint8_t *exif, size_t n_exif)
{
    memcpy(out, exif, n_exif);
    return n_exif;
}

/* From memory of exactly the file's size, for the sanitizer. */
static unsigned orientation_of(const uint8_t *bytes, size_t n)
{
    uint8_t *copy = malloc(n + (n == 0));
    if (!copy) return 0;
    if (n > 0) memcpy(copy, bytes, n);
    const unsigned found = dpti_exif_orientation(&(dpti_file_bytes){"file", copy, n});
    free(copy);
    return found;
}

static void found(test *t)
{
    static size_t (*const makers[])(uint8_t *, const uint8_t *, size_t) = {make_jpeg, make_png,
                                                                           make_webp, make_tiff};
    for (size_t m = 0; m < sizeof makers / sizeof *makers; m++)
        for (int little = 0; little < 2; little++)
            for (unsigned wanted = 0; wanted < 10; wanted++) {
                uint8_t exif[64], file[FILE_BYTES];
                const size_t n = makers[m](file, exif, make_exif(exif, little, wanted));
                const unsigned right = wanted >= 1 && wanted <= 8 ? wanted : 1;
                if (!CHECK_SIZE(orientation_of(file, n), right))
                    FAIL("file %zu, byte order %d", m, little);
                for (size_t part = 0; part < n; part++) {
                    const unsigned cut = orientation_of(file, part);
                    CHECK(cut == 1 || cut == right);
                }
                for (size_t i = 0; i < 8 * n; i++) {
                    file[i / 8] ^= (uint8_t)(1 << i % 8);
                    const unsigned changed = orientation_of(file, n);
                    CHECK(changed >= 1 && changed <= 8);
                    file[i / 8] ^= (uint8_t)(1 << i % 8);
                }
            }
}

/* EXIF says where the first row and the first column of the file are in the picture. */
static void turned(test *t)
{
    enum { H = 2, W = 3 };
    static const char file[] = "abcdef"; /* abc above def */
    static const char *const wanted[] = {"abcdef", "cbafed", "fedcba", "defabc",
                                         "adbecf", "daebfc", "fcebda", "cfbead"};
    for (unsigned k = 1; k <= 8; k++) {
        uint8_t out[H * W * 3 + 1] = {0}, rgb[H * W * 3], turned_rgb[H * W * 3];
        dpti_exif_turn((const uint8_t *)file, &(dpti_image_shape){H, W, 1}, k, out);
        CHECK_TEXT((const char *)out, wanted[k - 1]);
        for (size_t i = 0; i < sizeof rgb; i++)
            rgb[i] = (uint8_t)((size_t)file[i / 3] + i % 3);
        dpti_exif_turn(rgb, &(dpti_image_shape){H, W, 3}, k, turned_rgb);
        for (size_t i = 0; i < sizeof rgb; i++)
            CHECK(turned_rgb[i] == (size_t)wanted[k - 1][i / 3] + i % 3);
    }
}

#ifdef DPTRAIN_HAS_PNG
#include <libdeflate.h>
#include <png.h>

/* A picture of 2 rows and 3 columns, read as one that stands. */
static void pictures(test *t)
{
    static const uint8_t grey[6] = {10, 20, 30, 40, 50, 60};
    static const uint8_t wanted[6] = {40, 10, 50, 20, 60, 30};
    png_image image = {
        .version = PNG_IMAGE_VERSION, .width = 3, .height = 2, .format = PNG_FORMAT_GRAY};
    uint8_t png[FILE_BYTES], file[FILE_BYTES], exif[64], pixels[6];
    png_alloc_size_t n_png = sizeof png;
    dpt_error error = {.message = ""};
    REQUIRE(png_image_write_to_memory(&image, png, &n_png, 0, grey, 0, NULL));
    enum { HEADER = 33 }; /* the signature and IHDR */
    size_t n = 0;
    const size_t n_exif = make_exif(exif, false, 6);
    put(file, &n, png, HEADER);
    put(file, &n, (uint8_t[]){0, 0, 0, (uint8_t)n_exif}, 4);
    put(file, &n, "eXIf", 4);
    put(file, &n, exif, n_exif);
    const uint32_t sum = libdeflate_crc32(libdeflate_crc32(0, "eXIf", 4), exif, n_exif);
    put(file, &n,
        (uint8_t[]){(uint8_t)(sum >> 24), (uint8_t)(sum >> 16), (uint8_t)(sum >> 8), (uint8_t)sum},
        4);
    put(file, &n, png + HEADER, n_png - HEADER);
    const dpti_file_bytes bytes = {"file", file, n};
    for (int scaled = 0; scaled < 2; scaled++) {
        const dpt_picture_shape stands = {3, 2, 1, scaled, false}, lies = {2, 3, 1, scaled, true};
        memset(pixels, 0, sizeof pixels);
        if (!CHECK_OK(dpti_picture_parse(&bytes, &stands, pixels, &error)))
            FAIL("%s", error.message);
        CHECK(memcmp(pixels, wanted, sizeof wanted) == 0);
        CHECK_OK(dpti_picture_parse(&bytes, &lies, pixels, &error));
        CHECK(memcmp(pixels, grey, sizeof grey) == 0);
    }
    const dpt_picture_shape other = {2, 3, 1, false, false};
    CHECK_STATUS(dpti_picture_parse(&bytes, &other, pixels, &error), DPT_E_INVALID);
}
#endif

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"orientations in files", found},
        {"the eight orientations", turned},
#ifdef DPTRAIN_HAS_PNG
        {"pictures that stand", pictures},
#endif
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
