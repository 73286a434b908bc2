/* Tests decoding of PNG and JPEG against files that libpng and libjpeg write: sizes, colours,
   alpha, damage. */
#include "data/image.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEIGHT = 9, WIDTH = 12, PIXELS = HEIGHT * WIDTH };

static void unknown(test *t)
{
    static const uint8_t text[] = "P7 2 2 255";
    const dpti_image_shape shape = {2, 2, 1};
    const dpti_file_bytes file = {"text", text, sizeof text};
    dpt_error error;
    uint8_t pixels[4];
    size_t height = 0, width = 0;
    CHECK(dpti_image_format_of(text, sizeof text) == DPTI_IMAGE_UNKNOWN);
    CHECK(dpti_image_format_of(text, 0) == DPTI_IMAGE_UNKNOWN);
    CHECK_STATUS(dpti_image_decode(&file, &shape, pixels, &error), DPT_E_FORMAT);
    CHECK_TEXT(error.message, "text: neither PNG, JPEG, WebP, BMP, GIF, TIFF, PPM nor PGM");
    CHECK_STATUS(dpti_image_measure(&file, &height, &width, &error), DPT_E_FORMAT);
    CHECK_SIZE(height + width, 0);
}

#if defined DPTRAIN_HAS_PNG || defined DPTRAIN_HAS_JPEG

typedef struct file {
    uint8_t *bytes;
    size_t n_bytes;
} file;

/* Smooth, so that JPEG keeps it nearly as it is. */
static void draw(uint8_t *out, size_t channels)
{
    for (size_t i = 0; i < PIXELS; i++)
        for (size_t c = 0; c < channels; c++)
            out[i * channels + c] = (uint8_t)(20 + 10 * (i / WIDTH) + 8 * (i % WIDTH) + 30 * c);
}

static int luma(const uint8_t *rgb)
{
    return (int)(0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] + 0.5);
}

static dpt_status decode(const file *f, const dpti_image_shape *shape, uint8_t *pixels,
                         dpt_error *error)
{
    const dpti_file_bytes named = {"name", f->bytes, f->n_bytes};
    return dpti_image_decode(&named, shape, pixels, error);
}

/* Decoded in the shape's channels, every value within `tolerance` of the drawing's. */
static void compare(test *t, const file *f, size_t drawn_channels, size_t channels, int tolerance)
{
    const dpti_image_shape shape = {HEIGHT, WIDTH, channels};
    dpt_error error = {.message = ""};
    uint8_t drawn[PIXELS * 3], pixels[PIXELS * 3];
    draw(drawn, drawn_channels);
    memset(pixels, 0xa5, sizeof pixels);
    if (!CHECK_OK(decode(f, &shape, pixels, &error))) {
        FAIL("%s", error.message);
        return;
    }
    for (size_t i = 0; i < PIXELS; i++) {
        for (size_t c = 0; c < channels; c++) {
            int expected = drawn[i * drawn_channels + (drawn_channels == 3 ? c : 0)];
            if (drawn_channels == 3 && channels == 1) expected = luma(drawn + 3 * i);
            CHECK(abs(pixels[i * channels + c] - expected) <= tolerance);
        }
    }
}

/* The size is told without decoding.  Another size is refused; so is every beginning of the file,
 * and no changed byte does harm. */
static void refuse(test *t, const file *f)
{
    const dpti_image_shape shape = {HEIGHT, WIDTH, 3}, other = {WIDTH, HEIGHT, 3};
    dpt_error error;
    uint8_t pixels[PIXELS * 3];
    const dpti_file_bytes named = {"name", f->bytes, f->n_bytes};
    size_t height = 0, width = 0;
    CHECK_OK(dpti_image_measure(&named, &height, &width, &error));
    CHECK_SIZE(height, HEIGHT);
    CHECK_SIZE(width, WIDTH);
    CHECK_STATUS(decode(f, &other, pixels, &error), DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "name: the image is 9x12 (height x width), but must be 12x9");
    for (size_t n = 0; n + 16 < f->n_bytes; n++) {
        uint8_t *part = malloc(n + 1); /* of its own size, for the sanitizer */
        REQUIRE(part);
        memcpy(part, f->bytes, n);
        CHECK_STATUS(decode(&(file){part, n}, &shape, pixels, &error), DPT_E_FORMAT);
        CHECK(error.message[0] != '\0');
        free(part);
    }
    for (size_t i = 0; i < f->n_bytes; i++) {
        f->bytes[i] ^= 0xff;
        (void)!decode(f, &shape, pixels, &error);
        f->bytes[i] ^= 0xff;
    }
}

#endif

#ifdef DPTRAIN_HAS_PNG
#include <png.h>

static bool write_png(const uint8_t *pixels, png_uint_32 format, file *out)
{
    png_image image = {.version = PNG_IMAGE_VERSION, .width = WIDTH, .height = HEIGHT};
    image.format = format;
    png_alloc_size_t n_bytes = 0;
    *out = (file){0};
    if (!png_image_write_get_memory_size(image, n_bytes, 0, pixels, 0, NULL)) return false;
    out->bytes = malloc(n_bytes);
    if (!out->bytes || !png_image_write_to_memory(&image, out->bytes, &n_bytes, 0, pixels, 0, NULL))
        return false;
    out->n_bytes = n_bytes;
    return true;
}

static void png_colours(test *t)
{
    for (size_t drawn = 1; drawn <= 3; drawn += 2) {
        uint8_t pixels[PIXELS * 3];
        file f;
        draw(pixels, drawn);
        REQUIRE(write_png(pixels, drawn == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB, &f));
        compare(t, &f, drawn, drawn, 0);
        compare(t, &f, drawn, 4 - drawn, drawn == 3 ? 1 : 0);
        refuse(t, &f);
        free(f.bytes);
    }
}

/* Half transparent is half as bright, wholly transparent black. */
static void png_alpha(test *t)
{
    const dpti_image_shape shape = {HEIGHT, WIDTH, 3};
    dpt_error error;
    uint8_t rgba[PIXELS * 4], pixels[PIXELS * 3];
    file f;
    for (size_t i = 0; i < PIXELS; i++) {
        const uint8_t alpha = i % 3 == 0 ? 0 : i % 3 == 1 ? 128 : 255;
        memcpy(rgba + 4 * i, (uint8_t[]){200, 100, 50, alpha}, 4);
    }
    REQUIRE(write_png(rgba, PNG_FORMAT_RGBA, &f));
    REQUIRE_OK(decode(&f, &shape, pixels, &error));
    for (size_t i = 0; i < PIXELS; i++)
        for (size_t c = 0; c < 3; c++)
            CHECK_NEAR(pixels[3 * i + c], rgba[4 * i + c] * rgba[4 * i + 3] / 255.0, 0.5);
    free(f.bytes);
}

/* The checksum of PNG's chunks. */
static uint32_t checksum(const uint8_t *bytes, size_t n)
{
    uint32_t sum = 0xffffffff;
    for (size_t i = 0; i < 8 * n; i++) {
        if (i % 8 == 0) sum ^= bytes[i / 8];
        sum = sum >> 1 ^ (sum & 1 ? 0xedb88320 : 0);
    }
    return ~sum;
}

enum { IHDR_END = 8 + 12 + 13 };

/* Takes away what libpng has put between IHDR and the pixels: its chunk sRGB outweighs gAMA. */
static void strip_chunks(file *f)
{
    size_t idat = IHDR_END;
    while (memcmp(f->bytes + idat + 4, "IDAT", 4) != 0)
        idat++;
    memmove(f->bytes + IHDR_END, f->bytes + idat, f->n_bytes - idat);
    f->n_bytes -= idat - IHDR_END;
}

/* Puts a chunk behind the first one, IHDR. */
static void insert_chunk(file *f, const char *type, const uint8_t *content, size_t n_content)
{
    enum { AROUND = 12 };
    uint8_t *bytes = malloc(f->n_bytes + AROUND + n_content);
    uint8_t *chunk = bytes + IHDR_END;
    if (!bytes) abort();
    memcpy(bytes, f->bytes, IHDR_END);
    memcpy(chunk + 4, type, 4);
    if (n_content > 0) memcpy(chunk + 8, content, n_content);
    const uint32_t sum = checksum(chunk + 4, 4 + n_content);
    for (size_t i = 0; i < 4; i++) {
        chunk[i] = (uint8_t)(n_content >> (24 - 8 * i));
        chunk[8 + n_content + i] = (uint8_t)(sum >> (24 - 8 * i));
    }
    memcpy(chunk + AROUND + n_content, f->bytes + IHDR_END, f->n_bytes - IHDR_END);
    free(f->bytes);
    f->bytes = bytes;
    f->n_bytes += AROUND + n_content;
}

/* What a file says of the meaning of its colours changes no pixel, as in the libraries with which
   networks of PyTorch are trained. */
static void png_meaning(test *t)
{
    static const uint8_t linear[] = {0, 1, 0x86, 0xa0}, half[] = {0, 0, 0xc3, 0x50};
    static const uint8_t perceptual[] = {0}, chromaticities[32] = {0, 0, 0x7a, 0x26};
    for (size_t drawn = 1; drawn <= 3; drawn += 2) {
        uint8_t pixels[PIXELS * 3];
        file f;
        draw(pixels, drawn);
        const png_uint_32 format = drawn == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
        REQUIRE(write_png(pixels, format, &f));
        strip_chunks(&f);
        insert_chunk(&f, "gAMA", linear, sizeof linear);
        compare(t, &f, drawn, drawn, 0);
        insert_chunk(&f, "tEXt", (const uint8_t *)"a\0b", 3);
        insert_chunk(&f, "cHRM", chromaticities, sizeof chromaticities);
        compare(t, &f, drawn, drawn, 0);
        refuse(t, &f);
        free(f.bytes);
        REQUIRE(write_png(pixels, format, &f));
        strip_chunks(&f);
        insert_chunk(&f, "gAMA", half, sizeof half);
        insert_chunk(&f, "sRGB", perceptual, sizeof perceptual);
        compare(t, &f, drawn, drawn, 0);
        free(f.bytes);
    }
}

/* A file of 16 bits a channel, which libpng writes with a gAMA of 1. */
static void png_sixteen(test *t)
{
    const dpti_image_shape shape = {HEIGHT, WIDTH, 1};
    dpt_error error;
    uint16_t wide[PIXELS];
    uint8_t pixels[PIXELS];
    file f;
    for (size_t i = 0; i < PIXELS; i++)
        wide[i] = (uint16_t)(600 * i + 5);
    REQUIRE(write_png((const uint8_t *)wide, PNG_FORMAT_LINEAR_Y, &f));
    REQUIRE_OK(decode(&f, &shape, pixels, &error));
    for (size_t i = 0; i < PIXELS; i++)
        CHECK_NEAR(pixels[i], wide[i] / 257.0, 0.51);
    free(f.bytes);
}
#endif

#ifdef DPTRAIN_HAS_JPEG
#include <jpeglib.h>

static J_COLOR_SPACE space_of(int channels)
{
    return channels == 1 ? JCS_GRAYSCALE : channels == 4 ? JCS_CMYK : JCS_RGB;
}

static void write_jpeg(uint8_t *pixels, int channels, bool progressive, bool adobe, file *out)
{
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    unsigned long n_bytes = 0;
    *out = (file){0};
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &out->bytes, &n_bytes);
    info.image_width = WIDTH;
    info.image_height = HEIGHT;
    info.input_components = channels;
    info.in_color_space = space_of(channels);
    jpeg_set_defaults(&info);
    info.write_Adobe_marker = (boolean)adobe;
    jpeg_set_quality(&info, 100, TRUE);
    if (progressive) jpeg_simple_progression(&info);
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
        JSAMPROW row = pixels + info.next_scanline * WIDTH * (size_t)channels;
        jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    out->n_bytes = n_bytes;
}

static void jpeg_colours(test *t)
{
    for (int drawn = 1; drawn <= 3; drawn += 2) {
        for (int progressive = 0; progressive < 2; progressive++) {
            uint8_t pixels[PIXELS * 3];
            file f;
            draw(pixels, (size_t)drawn);
            write_jpeg(pixels, drawn, progressive, false, &f);
            compare(t, &f, (size_t)drawn, 1, 4);
            compare(t, &f, (size_t)drawn, 3, 4);
            refuse(t, &f);
            free(f.bytes);
        }
    }
}

/* Inks over white; in Adobe's files what they leave of the light. */
static void jpeg_inks(test *t)
{
    const dpti_image_shape shape = {HEIGHT, WIDTH, 3};
    for (int adobe = 0; adobe < 2; adobe++) {
        uint8_t inks[PIXELS * 4], pixels[PIXELS * 3];
        dpt_error error;
        file f;
        for (size_t i = 0; i < PIXELS * 4; i++)
            inks[i] = (uint8_t)(i % 4 == 3 ? 40 + i / 4 : 10 + 2 * (i / 4) + 20 * (i % 4));
        write_jpeg(inks, 4, false, adobe == 1, &f);
        REQUIRE_OK(decode(&f, &shape, pixels, &error));
        for (size_t i = 0; i < PIXELS; i++)
            for (size_t c = 0; c < 3; c++) {
                const int ink = inks[4 * i + c], black = inks[4 * i + 3];
                const double light = adobe ? ink * black : (255 - ink) * (255 - black);
                CHECK_NEAR(pixels[3 * i + c], light / 255.0, 4);
            }
        free(f.bytes);
    }
}

/* Bytes that belong to no part of the file change no pixel. */
static void jpeg_strays(test *t)
{
    enum { JFIF_END = 20, STRAYS = 5 };
    const dpti_image_shape shape = {HEIGHT, WIDTH, 3};
    uint8_t drawn[PIXELS * 3], wanted[PIXELS * 3], pixels[PIXELS * 3];
    dpt_error error;
    file f;
    draw(drawn, 3);
    write_jpeg(drawn, 3, false, false, &f);
    REQUIRE_OK(decode(&f, &shape, wanted, &error));
    uint8_t *longer = calloc(f.n_bytes + STRAYS, 1);
    REQUIRE(longer);
    memcpy(longer, f.bytes, JFIF_END);
    memcpy(longer + JFIF_END + STRAYS, f.bytes + JFIF_END, f.n_bytes - JFIF_END);
    CHECK_OK(decode(&(file){longer, f.n_bytes + STRAYS}, &shape, pixels, &error));
    CHECK(memcmp(pixels, wanted, sizeof pixels) == 0);
    free(longer);
    free(f.bytes);
}
#endif

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"a format that is not known", unknown},
#ifdef DPTRAIN_HAS_PNG
        {"PNG: grey and colour, sizes, damage", png_colours},
        {"PNG: alpha over black", png_alpha},
        {"PNG: what is said of colours", png_meaning},
        {"PNG: 16 bits a channel", png_sixteen},
#endif
#ifdef DPTRAIN_HAS_JPEG
        {"JPEG: grey and colour, sizes, damage", jpeg_colours},
        {"JPEG: inks", jpeg_inks},
        {"JPEG: stray bytes", jpeg_strays},
#endif
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
