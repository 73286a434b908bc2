/* Tests decoding of WebP, BMP, GIF, TIFF, PGM and PPM against files that the formats' libraries
   write, or that are written here byte by byte: colours, kinds of pixels, places of frames, damage.
 */
#include "data/image.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEIGHT = 9, WIDTH = 12, PIXELS = HEIGHT * WIDTH, FILE_BYTES = 8192 };

/* A file that is being written. */
typedef struct file {
    uint8_t bytes[FILE_BYTES];
    size_t n;
} file;

static void put(file *f, const void *bytes, size_t n)
{
    if (f->n + n <= sizeof f->bytes) memcpy(f->bytes + f->n, bytes, n);
    f->n += n;
}

static void put_number(file *f, uint32_t value, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++)
        put(f, &(uint8_t){(uint8_t)(i < 4 ? value >> (8 * i) : 0)}, 1);
}

static void draw(uint8_t *out)
{
    for (size_t i = 0; i < PIXELS; i++)
        for (size_t c = 0; c < 3; c++)
            out[3 * i + c] = (uint8_t)(20 + 10 * (i / WIDTH) + 8 * (i % WIDTH) + 30 * c);
}

/* Decodes from memory of exactly the file's size, for the sanitizer. */
static dpt_status decode(const void *bytes, size_t n, const dpti_image_shape *shape,
                         uint8_t *pixels, dpt_error *error)
{
    uint8_t *copy = malloc(n + (n == 0));
    if (!copy) return DPT_E_NO_MEMORY;
    if (n > 0) memcpy(copy, bytes, n);
    const dpti_file_bytes named = {"name", copy, n};
    const dpt_status status = dpti_image_decode(&named, shape, pixels, error);
    free(copy);
    return status;
}

/* The pixels of a file are these, within a tolerance. */
static void compare(test *t, const file *f, const uint8_t *wanted, int tolerance)
{
    const dpti_image_shape shape = {HEIGHT, WIDTH, 3};
    const dpti_file_bytes named = {"name", f->bytes, f->n};
    dpt_error error = {.message = ""};
    uint8_t pixels[PIXELS * 3];
    size_t height = 0, width = 0;
    REQUIRE(f->n <= FILE_BYTES);
    memset(pixels, 0xa5, sizeof pixels);
    if (!CHECK_OK(dpti_image_measure(&named, &height, &width, &error)) ||
        !CHECK_OK(decode(f->bytes, f->n, &shape, pixels, &error))) {
        FAIL("%s", error.message);
        return;
    }
    CHECK_SIZE(height, HEIGHT);
    CHECK_SIZE(width, WIDTH);
    for (size_t i = 0; i < PIXELS * 3; i++)
        if (!CHECK(abs(pixels[i] - wanted[i]) <= tolerance)) {
            FAIL("value %zu is %d, not %d", i, pixels[i], wanted[i]);
            return;
        }
}

/* Another size is refused, and so is every beginning of the file but for its last `end` bytes; no
   changed byte does harm. */
static void refuse(test *t, const file *f, size_t end)
{
    const dpti_image_shape shape = {HEIGHT, WIDTH, 3}, other = {WIDTH, HEIGHT, 3};
    file changed = *f;
    dpt_error error;
    uint8_t pixels[PIXELS * 3];
    CHECK_STATUS(decode(f->bytes, f->n, &other, pixels, &error), DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "name: the image is 9x12 (height x width), but must be 12x9");
    for (size_t n = 0; n + end < f->n; n++) {
        if (!CHECK_STATUS(decode(f->bytes, n, &shape, pixels, &error), DPT_E_FORMAT))
            FAIL("the first %zu of %zu bytes", n, f->n);
        CHECK(error.message[0] != '\0');
    }
    for (size_t i = 0; i < 4 * f->n; i++) {
        static const uint8_t masks[] = {0xff, 0x80, 0x01, 0x10};
        changed.bytes[i / 4] ^= masks[i % 4];
        (void)!decode(changed.bytes, changed.n, &shape, pixels, &error);
        changed.bytes[i / 4] ^= masks[i % 4];
    }
}

static bool is_absent(test *t, const char *format, const char *bytes, size_t n)
{
    const dpti_image_shape shape = {HEIGHT, WIDTH, 3};
    dpt_error error;
    uint8_t pixels[PIXELS * 3];
    const bool absent = decode(bytes, n, &shape, pixels, &error) == DPT_E_UNSUPPORTED;
    if (absent) {
        CHECK_CONTAINS(error.message, "this dptrain was built without lib");
        CHECK_CONTAINS(error.message, format);
    }
    return absent;
}

/* ---- BMP ------------------------------------------------------------------------------------- */

typedef struct bitmap {
    uint32_t header, bits, coding, n_colours;
    bool downwards;
    uint32_t masks[4];
} bitmap;

static void begin_bmp(file *f, const bitmap *b, const uint8_t (*palette)[3])
{
    const uint32_t masks = b->coding == 3 ? 12 : 0, outside = b->header == 40 ? masks : 0;
    const uint32_t step = b->header == 12 ? 3 : 4;
    f->n = 0;
    put(f, "BM", 2);
    put_number(f, 0, 8);
    put_number(f, 14 + b->header + outside + step * b->n_colours, 4);
    put_number(f, b->header, 4);
    put_number(f, WIDTH, b->header == 12 ? 2 : 4);
    put_number(f, b->downwards ? (uint32_t)-HEIGHT : HEIGHT, b->header == 12 ? 2 : 4);
    put_number(f, 1, 2);
    put_number(f, b->bits, 2);
    if (b->header > 12) {
        put_number(f, b->coding, 4);
        put_number(f, 0, 12);
        put_number(f, b->n_colours, 4);
        put_number(f, 0, 4);
    }
    for (size_t i = 0; i < 4 && (b->header > 40 || (masks && i < 3)); i++)
        put_number(f, b->masks[i], 4);
    while (f->n < 14 + b->header + outside)
        put_number(f, 0, 1);
    for (size_t i = 0; i < b->n_colours; i++) {
        put(f, (uint8_t[]){palette[i][2], palette[i][1], palette[i][0], 0}, step);
    }
}

static size_t row_of(const bitmap *b, size_t row)
{
    return b->downwards ? row : HEIGHT - 1 - row;
}

static void fill_row(file *f, size_t began)
{
    while ((f->n - began) % 4 != 0)
        put_number(f, 0, 1);
}

static void bmp_colours(test *t)
{
    static const bitmap kinds[] = {
        {.header = 40, .bits = 24},
        {.header = 12, .bits = 24},
        {.header = 40, .bits = 24, .downwards = true},
        {.header = 40, .bits = 32},
        {.header = 108, .bits = 32, .coding = 3, .masks = {0xff, 0xff00, 0xff0000}},
        {.header = 40, .bits = 32, .coding = 3, .masks = {0xff000000, 0xff00, 0xff0000}},
    };
    uint8_t drawn[PIXELS * 3];
    file f;
    draw(drawn);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const bitmap *b = &kinds[k];
        begin_bmp(&f, b, NULL);
        for (size_t row = 0; row < HEIGHT; row++) {
            const size_t began = f.n;
            for (size_t x = 0; x < WIDTH; x++) {
                const uint8_t *p = drawn + 3 * (row_of(b, row) * WIDTH + x);
                uint32_t value = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
                if (b->coding == 3)
                    value = (b->masks[0] == 0xff ? p[0] : (uint32_t)p[0] << 24) |
                            (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
                put_number(&f, value, b->bits / 8);
            }
            fill_row(&f, began);
        }
        compare(t, &f, drawn, 0);
        refuse(t, &f, 0);
    }
}

/* Five bits of each colour, or five, six and five. */
static void bmp_masks(test *t)
{
    const bitmap kinds[] = {
        {.header = 40, .bits = 16},
        {.header = 56, .bits = 16, .coding = 3, .masks = {0xf800, 0x7e0, 0x1f}},
        {.header = 108, .bits = 32, .coding = 3, .masks = {0xff, 0xff00, 0xff0000, 0xff000000}},
    };
    uint8_t wanted[PIXELS * 3];
    file f;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const bool six = k == 1, alpha = k == 2;
        begin_bmp(&f, &kinds[k], NULL);
        for (size_t i = 0; i < PIXELS; i++) {
            uint8_t *p = wanted + 3 * (row_of(&kinds[k], i / WIDTH) * WIDTH + i % WIDTH);
            const uint32_t n = (uint32_t)i, r = n % 32, g = n % (six ? 64 : 32), b = 31 - n % 32;
            if (alpha) {
                const uint32_t a = i % 2 ? 255 : 51;
                put_number(&f, a << 24 | 200u << 16 | 100u << 8 | 50u, 4);
                p[0] = (uint8_t)(50 * a / 255);
                p[1] = (uint8_t)(100 * a / 255);
                p[2] = (uint8_t)(200 * a / 255);
                continue;
            }
            put_number(&f, r << (six ? 11 : 10) | g << 5 | b, 2);
            p[0] = (uint8_t)(r * 255 / 31);
            p[1] = (uint8_t)(g * 255 / (six ? 63 : 31));
            p[2] = (uint8_t)(b * 255 / 31);
        }
        compare(t, &f, wanted, 0);
        refuse(t, &f, 0);
    }
    const bitmap holes = {.header = 40, .bits = 16, .coding = 3, .masks = {0xf0f0, 0x7e0, 0x1f}};
    const dpti_image_shape shape = {HEIGHT, WIDTH, 3};
    dpt_error error;
    begin_bmp(&f, &holes, NULL);
    CHECK_STATUS(decode(f.bytes, f.n, &shape, wanted, &error), DPT_E_FORMAT);
    CHECK_CONTAINS(error.message, "a mask of a colour has holes");
}

static void bmp_palette(test *t)
{
    static const uint8_t palette[16][3] = {
        {1, 2, 3}, {40, 50, 60}, {200, 0, 10}, {9, 99, 199},   {255, 0, 1}, {2, 2, 2},
        {7, 8, 9}, {70, 80, 90}, {0, 255, 99}, {5, 6, 7},      {8, 8, 1},   {1, 1, 200},
        {3, 5, 8}, {9, 4, 2},    {6, 60, 6},   {250, 251, 252}};
    uint8_t wanted[PIXELS * 3];
    file f;
    for (uint32_t bits = 1; bits <= 8; bits *= 2)
        for (uint32_t header = 12; header <= 40; header += 28) {
            const uint32_t n_colours = bits == 8 ? 16 : 1u << bits;
            const bitmap b = {.header = header, .bits = bits, .n_colours = n_colours};
            if (header == 12 && bits == 8) continue; /* its palette has always 256 colours */
            begin_bmp(&f, &b, palette);
            for (size_t row = 0; row < HEIGHT; row++) {
                const size_t began = f.n;
                uint8_t byte = 0;
                for (size_t x = 0; x < WIDTH; x++) {
                    const size_t index = (row + x * x) % n_colours;
                    memcpy(wanted + 3 * (row_of(&b, row) * WIDTH + x), palette[index], 3);
                    byte = (uint8_t)((size_t)byte << bits | index);
                    if ((x + 1) * bits % 8 == 0) put(&f, &byte, 1);
                }
                if (WIDTH * bits % 8 != 0) {
                    byte = (uint8_t)(byte << (8 - WIDTH * bits % 8));
                    put(&f, &byte, 1);
                }
                fill_row(&f, began);
            }
            compare(t, &f, wanted, 0);
            refuse(t, &f, 4);
        }
}

/* Rows of one colour; a row of bytes as they are; what a jump leaves out is of the first colour. */
static void bmp_runs(test *t)
{
    static const uint8_t palette[4][3] = {{11, 22, 33}, {44, 55, 66}, {77, 88, 99}, {0, 128, 255}};
    uint8_t wanted[PIXELS * 3];
    file f;
    for (uint32_t coding = 1; coding <= 2; coding++) {
        const bitmap b = {
            .header = 40, .bits = coding == 1 ? 8 : 4, .coding = coding, .n_colours = 4};
        begin_bmp(&f, &b, palette);
        for (size_t i = 0; i < PIXELS; i++)
            memcpy(wanted + 3 * i, palette[0], 3);
        for (size_t row = 0; row < 6; row++) {
            const uint8_t index = (uint8_t)(row % 3 + 1), pair = (uint8_t)(index << 4 | index);
            put(&f, (uint8_t[]){WIDTH, coding == 1 ? index : pair, 0, 0}, 4);
            for (size_t x = 0; x < WIDTH; x++)
                memcpy(wanted + 3 * (row_of(&b, row) * WIDTH + x), palette[index], 3);
        }
        put(&f, (uint8_t[]){0, 2, 4, 1}, 4); /* to x 4 of row 7 */
        put(&f, (uint8_t[]){0, 5}, 2);
        if (coding == 1)
            put(&f, (uint8_t[]){3, 2, 1, 3, 2, 0}, 6);
        else
            put(&f, (uint8_t[]){0x32, 0x13, 0x20, 0}, 4);
        for (size_t i = 0; i < 5; i++)
            memcpy(wanted + 3 * (row_of(&b, 7) * WIDTH + 4 + i),
                   palette[(uint8_t[]){3, 2, 1, 3, 2}[i]], 3);
        put(&f, (uint8_t[]){0, 1}, 2);
        compare(t, &f, wanted, 0);
        refuse(t, &f, 0);
    }
}

/* ---- PGM and PPM ----------------------------------------------------------------------------- */

static size_t print_value(char text[64], unsigned value, const char *space)
{
    return (size_t)snprintf(text, 64, "%u%s", value, space);
}

static void pnm_kinds(test *t)
{
    uint8_t drawn[PIXELS * 3], wanted[PIXELS * 3];
    draw(drawn);
    for (char kind = '2'; kind <= '6'; kind++)
        for (unsigned most = 200; most <= 60000; most *= 300) {
            file f = {.n = 0};
            char text[64];
            const size_t channels = kind == '3' || kind == '6' ? 3 : 1;
            const size_t n_bytes = most > 255 ? 2 : 1;
            if (kind == '4') continue;
            const int n = snprintf(text, sizeof text, "P%c # 1\n%d\t#2 3\n %d %u\n", kind, WIDTH,
                                   HEIGHT, most);
            put(&f, text, (size_t)n);
            for (size_t i = 0; i < PIXELS * channels; i++) {
                const unsigned value = most * drawn[i] / 255;
                if (kind <= '3')
                    put(&f, text, print_value(text, value, i % 9 ? " " : "\n"));
                else
                    put(&f,
                        (uint8_t[]){(uint8_t)(n_bytes == 2 ? value >> 8 : value), (uint8_t)value},
                        n_bytes);
                const uint8_t rounded = (uint8_t)(value * 255.0 / most + 0.5);
                for (size_t c = 0; c < 3 / channels; c++)
                    wanted[i * (3 / channels) + c] = rounded;
            }
            compare(t, &f, wanted, 0);
            refuse(t, &f, kind <= '3' ? 8 : 0);
        }
}

static void pnm_refused(test *t)
{
    static const char *const files[] = {
        "P5 12 9 0\n",  "P5 12 9 65536\n", "P5 12 9 x\n", "P5 -12 9 255\n",
        "P2 1 1 9 10 ", "P2 1 1 9 a",      "P5",          "P5 99999999999999999999 9 255\n",
        "P5 12 0 255 ", "P6\n#",           "P5 12 9",     "P5 12\n"};
    const dpti_image_shape shape = {HEIGHT, WIDTH, 3};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        dpt_error error = {.message = ""};
        uint8_t pixels[PIXELS * 3];
        const dpt_status status = decode(files[i], strlen(files[i]), &shape, pixels, &error);
        if (!CHECK(status == DPT_E_FORMAT || status == DPT_E_INVALID)) FAIL("%s", files[i]);
    }
}

/* ---- WebP ------------------------------------------------------------------------------------ */

#ifdef DPTRAIN_HAS_WEBP
#include <webp/encode.h>

static void put_chunk(file *f, const char *name, const void *bytes, size_t n)
{
    put(f, name, 4);
    put_number(f, (uint32_t)n, 4);
    put(f, bytes, n);
    if (n % 2) put_number(f, 0, 1);
}

static void end_riff(file *f)
{
    const size_t n = f->n;
    f->n = 4;
    put_number(f, (uint32_t)n - 8, 4);
    f->n = n;
}

static void webp_colours(test *t)
{
    uint8_t drawn[PIXELS * 3], *bytes = NULL;
    file f = {.n = 0};
    draw(drawn);
    const size_t n = WebPEncodeLosslessRGB(drawn, WIDTH, HEIGHT, 3 * WIDTH, &bytes);
    put(&f, bytes, n);
    WebPFree(bytes);
    compare(t, &f, drawn, 0);
    refuse(t, &f, 16);
    f.n = 0;
    const size_t lossy = WebPEncodeRGB(drawn, WIDTH, HEIGHT, 3 * WIDTH, 100, &bytes);
    put(&f, bytes, lossy);
    WebPFree(bytes);
    compare(t, &f, drawn, 20);
    refuse(t, &f, 16);
}

static void webp_alpha(test *t)
{
    uint8_t rgba[PIXELS * 4], wanted[PIXELS * 3], *bytes = NULL;
    file f = {.n = 0};
    for (size_t i = 0; i < PIXELS; i++) {
        const uint8_t alpha = i % 3 == 0 ? 0 : i % 3 == 1 ? 51 : 255;
        memcpy(rgba + 4 * i, (uint8_t[]){200, 100, 50, alpha}, 4);
        for (size_t c = 0; c < 3; c++)
            wanted[3 * i + c] = (uint8_t)(rgba[4 * i + c] * alpha / 255);
    }
    const size_t n = WebPEncodeLosslessRGBA(rgba, WIDTH, HEIGHT, 4 * WIDTH, &bytes);
    put(&f, bytes, n);
    WebPFree(bytes);
    compare(t, &f, wanted, 0);
    refuse(t, &f, 16);
}

/* Of two frames the first one, at its place; around it is nothing. */
static void webp_animation(test *t)
{
    enum { SIDE = 4, X = 6, Y = 2 };
    uint8_t colours[SIDE * SIDE * 3], wanted[PIXELS * 3] = {0};
    file f = {.n = 0}, frame = {.n = 0};
    put(&f, "RIFF\0\0\0\0WEBP", 12);
    put_chunk(&f, "VP8X", (uint8_t[]){2, 0, 0, 0, WIDTH - 1, 0, 0, HEIGHT - 1, 0, 0}, 10);
    put_chunk(&f, "ANIM", (uint8_t[]){9, 9, 9, 9, 0, 0}, 6);
    for (int k = 0; k < 2; k++) {
        uint8_t *bytes = NULL;
        for (size_t i = 0; i < sizeof colours; i++)
            colours[i] = (uint8_t)(k ? 255 : 5 * i);
        const size_t n = WebPEncodeLosslessRGB(colours, SIDE, SIDE, 3 * SIDE, &bytes);
        frame.n = 0;
        put(&frame,
            (uint8_t[]){X / 2, 0, 0, Y / 2, 0, 0, SIDE - 1, 0, 0, SIDE - 1, 0, 0, 9, 0, 0, 0}, 16);
        put(&frame, bytes + 12, n - 12);
        WebPFree(bytes);
        put_chunk(&f, "ANMF", frame.bytes, frame.n);
        for (size_t y = 0; y < SIDE && k == 0; y++)
            memcpy(wanted + 3 * ((Y + y) * WIDTH + X), colours + 3 * SIDE * y, 3 * SIDE);
    }
    end_riff(&f);
    compare(t, &f, wanted, 0);
    refuse(t, &f, f.n - 20);
}
#endif

/* ---- GIF ------------------------------------------------------------------------------------- */

#ifdef DPTRAIN_HAS_GIF
#include <gif_lib.h>

static int write_gif(GifFileType *gif, const GifByteType *bytes, int n)
{
    put(gif->UserData, bytes, (size_t)n);
    return n;
}

/* What a GIF is made of: a frame of this size at (x, y) of a screen, and a second frame. */
typedef struct drawing {
    int x, y, height, width;
    bool interlaced, local;
    int transparent; /* or -1 */
} drawing;

static const GifColorType gif_colours[4] = {{10, 20, 30}, {200, 0, 9}, {0, 150, 8}, {1, 2, 255}};

static int index_of(int y, int x)
{
    return (y * 5 + x * x) % 4;
}

static void put_frame(test *t, GifFileType *gif, const drawing *d, int shift)
{
    static const int first[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
    ColorMapObject *map = d->local ? GifMakeMapObject(4, gif_colours) : NULL;
    REQUIRE(EGifPutImageDesc(gif, d->x, d->y, d->width, d->height, d->interlaced, map) == GIF_OK);
    GifFreeMapObject(map);
    for (int pass = 0; pass < (d->interlaced ? 4 : 1); pass++)
        for (int y = d->interlaced ? first[pass] : 0; y < d->height;
             y += d->interlaced ? step[pass] : 1) {
            GifPixelType row[WIDTH];
            for (int x = 0; x < d->width; x++)
                row[x] = (GifPixelType)((index_of(y, x) + shift) % 4);
            REQUIRE(EGifPutLine(gif, row, d->width) == GIF_OK);
        }
}

static void make_gif(test *t, const drawing *d, file *f)
{
    int code = 0;
    f->n = 0;
    GifFileType *gif = EGifOpen(f, write_gif, &code);
    REQUIRE(gif);
    EGifSetGifVersion(gif, true);
    ColorMapObject *map = d->local ? NULL : GifMakeMapObject(4, gif_colours);
    REQUIRE(EGifPutScreenDesc(gif, WIDTH, HEIGHT, 8, 0, map) == GIF_OK);
    GifFreeMapObject(map);
    if (d->transparent >= 0)
        REQUIRE(EGifPutExtension(gif, GRAPHICS_EXT_FUNC_CODE, 4,
                                 (uint8_t[]){1, 0, 0, (uint8_t)d->transparent}) == GIF_OK);
    REQUIRE(EGifPutComment(gif, "a comment") == GIF_OK);
    put_frame(t, gif, d, 0);
    put_frame(t, gif, d, 1);
    REQUIRE(EGifCloseFile(gif, &code) == GIF_OK);
}

static void gif_frames(test *t)
{
    static const drawing drawings[] = {
        {0, 0, HEIGHT, WIDTH, false, false, -1},
        {0, 0, HEIGHT, WIDTH, true, false, -1},
        {0, 0, HEIGHT, WIDTH, false, true, 2},
        {3, 2, 4, 5, true, false, -1},
        {3, 2, 4, 5, false, true, 1},
    };
    file f;
    for (size_t k = 0; k < sizeof drawings / sizeof *drawings; k++) {
        const drawing *d = &drawings[k];
        uint8_t wanted[PIXELS * 3] = {0};
        for (int y = 0; y < d->height; y++)
            for (int x = 0; x < d->width; x++) {
                const int index = index_of(y, x);
                const GifColorType *c = &gif_colours[index];
                if (index == d->transparent) continue;
                memcpy(wanted + 3 * ((d->y + y) * WIDTH + d->x + x),
                       (uint8_t[]){c->Red, c->Green, c->Blue}, 3);
            }
        make_gif(t, d, &f);
        compare(t, &f, wanted, 0);
        refuse(t, &f, f.n - 40); /* the first frame is whole before the file is */
    }
}
#endif

/* ---- TIFF ------------------------------------------------------------------------------------ */

#ifdef DPTRAIN_HAS_TIFF
#include <tiffio.h>

/* How the drawing is stored. */
typedef struct kind {
    uint16_t compression, photometric, bits, channels, planar;
    bool tiled, big;
    const char *mode;
    int tolerance;
} kind;

/* Whether the last channel is alpha. */
static bool has_alpha(const kind *k)
{
    return k->channels == 2 || (k->photometric == PHOTOMETRIC_RGB && k->channels == 4);
}

/* The value of a channel as it is stored. */
static unsigned value_of(const kind *k, const uint8_t *rgb, size_t c)
{
    const unsigned grey = rgb[0];
    if (has_alpha(k) && c + 1 == k->channels) return 51;
    if (k->photometric == PHOTOMETRIC_MINISBLACK)
        return k->bits == 16 ? grey * 257 : k->bits == 1 ? grey >= 100 : grey;
    if (k->photometric == PHOTOMETRIC_MINISWHITE) return 255 - grey;
    if (k->photometric == PHOTOMETRIC_PALETTE) return grey;
    if (k->photometric == PHOTOMETRIC_SEPARATED) return c == 3 ? 0 : 255u - rgb[c];
    return k->bits == 16 ? rgb[c] * 257u : rgb[c];
}

static void wanted_of(const kind *k, const uint8_t *rgb, uint8_t *out)
{
    const bool grey =
        k->photometric == PHOTOMETRIC_MINISBLACK || k->photometric == PHOTOMETRIC_MINISWHITE;
    for (size_t c = 0; c < 3; c++) {
        out[c] = grey ? rgb[0] : rgb[c];
        if (k->bits == 1) out[c] = rgb[0] >= 100 ? 255 : 0;
        if (k->photometric == PHOTOMETRIC_PALETTE) out[c] = (uint8_t)(rgb[0] ^ (c * 85));
        if (has_alpha(k)) out[c] = (uint8_t)(out[c] * 51 / 255);
    }
}

static void set_tags(TIFF *tiff, const kind *k)
{
    TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, WIDTH);
    TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, HEIGHT);
    TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, k->channels);
    TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, k->bits);
    TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, k->photometric);
    TIFFSetField(tiff, TIFFTAG_COMPRESSION, k->compression);
    TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, k->planar);
    TIFFSetField(tiff, TIFFTAG_ORIENTATION,
                 ORIENTATION_RIGHTBOT); /* decoding keeps rows in order */
    if (has_alpha(k))
        TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, 1, (uint16_t[]){EXTRASAMPLE_UNASSALPHA});
    if (k->tiled) {
        TIFFSetField(tiff, TIFFTAG_TILEWIDTH, 16);
        TIFFSetField(tiff, TIFFTAG_TILELENGTH, 16);
    } else {
        TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, 4);
    }
    if (k->photometric == PHOTOMETRIC_PALETTE) {
        uint16_t table[3][256];
        for (size_t c = 0; c < 3; c++)
            for (size_t i = 0; i < 256; i++)
                table[c][i] = (uint16_t)((i ^ (c * 85)) * 257);
        TIFFSetField(tiff, TIFFTAG_COLORMAP, table[0], table[1], table[2]);
    }
}

/* The values of a row in one plane, or in all. */
static void make_row(const kind *k, const uint8_t *rgb, size_t plane, uint8_t *row)
{
    const bool planes = k->planar == PLANARCONFIG_SEPARATE;
    for (size_t x = 0; x < WIDTH; x++)
        for (size_t c = 0; c < (planes ? 1 : k->channels); c++) {
            const unsigned value = value_of(k, rgb + 3 * x, planes ? plane : c);
            const size_t i = x * (planes ? 1 : k->channels) + c;
            if (k->bits == 1)
                row[i / 8] = (uint8_t)((i % 8 ? row[i / 8] : 0) | value << (7 - i % 8));
            else if (k->bits == 16)
                memcpy(row + 2 * i, &(uint16_t){(uint16_t)value}, 2);
            else
                row[i] = (uint8_t)value;
        }
}

static void make_tiff(test *t, const kind *k, const uint8_t *drawn, file *f)
{
    static uint8_t tile[16 * 16 * 8];
    uint8_t row[WIDTH * 8];
    TIFF *tiff = TIFFOpen("made.tif", k->mode);
    REQUIRE(tiff);
    set_tags(tiff, k);
    const size_t planes = k->planar == PLANARCONFIG_SEPARATE ? k->channels : 1;
    for (size_t plane = 0; plane < planes; plane++)
        for (uint32_t y = 0; y < HEIGHT; y++) {
            make_row(k, drawn + 3 * WIDTH * y, plane, row);
            if (k->tiled)
                memcpy(tile + y * (size_t)TIFFTileRowSize(tiff), row,
                       (size_t)WIDTH * k->channels * k->bits / 8);
            else
                REQUIRE(TIFFWriteScanline(tiff, row, y, (uint16_t)plane) == 1);
        }
    if (k->tiled) REQUIRE(TIFFWriteTile(tiff, tile, 0, 0, 0, 0) > 0);
    TIFFClose(tiff);
    FILE *made = fopen("made.tif", "rb");
    REQUIRE(made);
    f->n = fread(f->bytes, 1, sizeof f->bytes, made);
    fclose(made);
    remove("made.tif");
}

static void tiff_kinds(test *t)
{
    static const kind kinds[] = {
        {COMPRESSION_NONE, PHOTOMETRIC_RGB, 8, 3, PLANARCONFIG_CONTIG, false, false, "w", 0},
        {COMPRESSION_NONE, PHOTOMETRIC_RGB, 8, 3, PLANARCONFIG_CONTIG, false, true, "wb", 0},
        {COMPRESSION_LZW, PHOTOMETRIC_RGB, 8, 3, PLANARCONFIG_CONTIG, true, false, "w", 0},
        {COMPRESSION_NONE, PHOTOMETRIC_RGB, 8, 3, PLANARCONFIG_CONTIG, true, false, "w", 0},
        {COMPRESSION_NONE, PHOTOMETRIC_MINISBLACK, 8, 2, PLANARCONFIG_CONTIG, false, false, "w", 1},
        {COMPRESSION_PACKBITS, PHOTOMETRIC_RGB, 8, 3, PLANARCONFIG_SEPARATE, false, false, "w", 0},
        {COMPRESSION_ADOBE_DEFLATE, PHOTOMETRIC_RGB, 16, 3, PLANARCONFIG_CONTIG, false, false, "w",
         0},
        {COMPRESSION_NONE, PHOTOMETRIC_RGB, 8, 4, PLANARCONFIG_CONTIG, false, false, "w", 1},
        {COMPRESSION_NONE, PHOTOMETRIC_MINISBLACK, 8, 1, PLANARCONFIG_CONTIG, false, false, "w8",
         0},
        {COMPRESSION_NONE, PHOTOMETRIC_MINISWHITE, 8, 1, PLANARCONFIG_CONTIG, false, false, "w", 0},
        {COMPRESSION_NONE, PHOTOMETRIC_MINISBLACK, 16, 1, PLANARCONFIG_CONTIG, false, false, "w",
         0},
        {COMPRESSION_NONE, PHOTOMETRIC_MINISBLACK, 1, 1, PLANARCONFIG_CONTIG, false, false, "w", 0},
        {COMPRESSION_LZW, PHOTOMETRIC_PALETTE, 8, 1, PLANARCONFIG_CONTIG, false, false, "w", 0},
        {COMPRESSION_NONE, PHOTOMETRIC_SEPARATED, 8, 4, PLANARCONFIG_CONTIG, false, false, "w", 1},
    };
    uint8_t drawn[PIXELS * 3], wanted[PIXELS * 3];
    static file f;
    draw(drawn);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        for (size_t p = 0; p < PIXELS; p++)
            wanted_of(&kinds[i], drawn + 3 * p, wanted + 3 * p);
        make_tiff(t, &kinds[i], drawn, &f);
        compare(t, &f, wanted, kinds[i].tolerance);
        refuse(t, &f, 16);
    }
}
#endif

/* ---- Formats without a library --------------------------------------------------------------- */

static void absent_formats(test *t)
{
    const bool webp = is_absent(t, "WebP", "RIFF\x10\0\0\0WEBPVP8L\0\0\0\0", 20);
    const bool gif = is_absent(t, "GIF", "GIF89a\1\0\1\0\0\0\0;", 14);
    const bool tiff = is_absent(t, "TIFF", "II*\0\10\0\0\0\0\0\0\0", 12);
#ifdef DPTRAIN_HAS_WEBP
    CHECK(!webp);
#else
    CHECK(webp);
#endif
#ifdef DPTRAIN_HAS_GIF
    CHECK(!gif);
#else
    CHECK(gif);
#endif
#ifdef DPTRAIN_HAS_TIFF
    CHECK(!tiff);
#else
    CHECK(tiff);
#endif
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"BMP: colours", bmp_colours},
        {"BMP: masks", bmp_masks},
        {"BMP: palettes", bmp_palette},
        {"BMP: runs", bmp_runs},
        {"PGM and PPM", pnm_kinds},
        {"PGM and PPM that are refused", pnm_refused},
#ifdef DPTRAIN_HAS_WEBP
        {"WebP: colours", webp_colours},
        {"WebP: alpha", webp_alpha},
        {"WebP: the first frame", webp_animation},
#endif
#ifdef DPTRAIN_HAS_GIF
        {"GIF: the first frame", gif_frames},
#endif
#ifdef DPTRAIN_HAS_TIFF
        {"TIFF", tiff_kinds},
#endif
        {"formats without a library", absent_formats},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
