/* Tests the rotation and the changes of colour of backends/kernels/distort.h against torchvision's
   functions of the same parameters (golden/distort.txt, made by golden/make_distort.py), and what
   is drawn against the contract of dpt_augment. */
#include "harness.h"
#include "kernels/randaugment.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 3 * 24 * 24, LINE_BYTES = 2 * MOST_BYTES + 100 };

typedef struct picture {
    unsigned channels, height, width;
    uint8_t bytes[MOST_BYTES];
} picture;

static size_t size_of(const picture *p)
{
    return (size_t)p->channels * p->height * p->width;
}

static bool parse_bytes(const char *hex, size_t n, uint8_t *out)
{
    if (strspn(hex, "0123456789abcdef") != 2 * n) return false;
    for (size_t i = 0; i < n; i++) {
        const char digits[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        out[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return true;
}

static distort_pixel load(const picture *p, size_t i)
{
    return distort_load(p->bytes + i * p->channels, p->channels == 3);
}

/* One change alone, by its name, of a picture with this factor or turn. */
static bool change(const picture *p, const char *name, i32 value, uint8_t *out)
{
    static const char *const names[] = {"brightness", "contrast", "saturation", "hue"};
    distort_drawn d = {.brightness = (u32)value,
                       .contrast = (u32)value,
                       .saturation = (u32)value,
                       .hue = (u32)value & 65535u};
    const size_t n_pixels = (size_t)p->height * p->width;
    const u32 coloured = p->channels == 3;
    u32 number = 0;
    u64 sum = 0;
    while (number < 4 && strcmp(name, names[number]) != 0)
        number++;
    if (number == 4) return false;
    for (size_t i = 0; i < n_pixels; i++)
        sum += distort_grey(load(p, i), coloured);
    if (value >= 0) d.offset = distort_offset((u32)value, sum, n_pixels);
    for (size_t i = 0; i < n_pixels; i++) {
        const distort_pixel q = distort_change(load(p, i), number, d, coloured);
        const u32 colours[3] = {q.red, q.green, q.blue};
        for (size_t k = 0; k < p->channels; k++)
            out[i * p->channels + k] = (uint8_t)colours[k];
    }
    return true;
}

static void turn(const picture *p, i32 angle, uint8_t *out)
{
    distort_drawn d = {0};
    const i32 h = (i32)p->height, w = (i32)p->width;
    distort_turn(angle, &d.cosine, &d.sine);
    for (i32 y = 0; y < h; y++) {
        for (i32 x = 0; x < w; x++, out += p->channels) {
            const u32 row = distort_row(d, 2 * x + 1 - w, 2 * y + 1 - h, p->height);
            const u32 column = distort_column(d, 2 * x + 1 - w, 2 * y + 1 - h, p->width);
            memset(out, 0, p->channels);
            if (row < p->height && column < p->width)
                memcpy(out, p->bytes + ((size_t)row * p->width + column) * p->channels,
                       p->channels);
        }
    }
}

/* One operation of RandAugment by torchvision's name. */
static bool augment(const picture *p, const char *name, i32 value, uint8_t *out)
{
    static const char *const names[] = {"Identity",     "ShearX",    "ShearY",     "TranslateX",
                                        "TranslateY",   "Rotate",    "Brightness", "Color",
                                        "Contrast",     "Sharpness", "Posterize",  "Solarize",
                                        "AutoContrast", "Equalize"};
    const randaugment_shape shape = {p->height, p->width, p->channels};
    u8 table[RANDAUGMENT_ROWS];
    u32 kind = 0;
    while (kind < RANDAUGMENT_KINDS && strcmp(name, names[kind]) != 0)
        kind++;
    if (kind == RANDAUGMENT_KINDS) return false;
    const randaugment_op op = randaugment_make(kind, value, shape);
    if (randaugment_maps(kind)) randaugment_table(p->bytes, &op, &shape, table);
    randaugment_image(p->bytes, table, &op, &shape, out);
    return true;
}

/* Compares with a line of the file.  `tolerance` is 0 or 1. */
static void compare(test *t, const picture *p, const char *name, i32 value, const char *hex)
{
    uint8_t expected[MOST_BYTES], made[MOST_BYTES];
    static const char *const exact[] = {"rotate",     "Identity",   "ShearX", "ShearY",
                                        "TranslateX", "TranslateY", "Rotate", "Posterize",
                                        "Solarize",   "Equalize",   NULL};
    const bool rotates = strcmp(name, "rotate") == 0;
    bool is_exact = false;
    for (size_t i = 0; exact[i]; i++)
        is_exact = is_exact || strcmp(name, exact[i]) == 0;
    if (!CHECK(parse_bytes(hex, size_of(p), expected))) return;
    if (rotates)
        turn(p, value, made);
    else if (!CHECK(change(p, name, value, made) || augment(p, name, value, made)))
        return;
    for (size_t i = 0; i < size_of(p); i++) {
        const int error = abs((int)made[i] - (int)expected[i]);
        if (!CHECK(error <= (is_exact ? 0 : 1)))
            FAIL("%s %d: byte %zu is %d, not %d", name, (int)value, i, made[i], expected[i]);
    }
}

static void as_torchvision(test *t)
{
    static char line[LINE_BYTES], hex[LINE_BYTES];
    picture p = {0};
    size_t compared = 0;
    FILE *file = test_open("golden/distort.txt");
    if (!CHECK(file)) return;
    while (fgets(line, sizeof line, file)) {
        char name[20];
        int value;
        if (line[0] == '#') continue;
        if (sscanf(line, "image %u %u %u %s", &p.channels, &p.height, &p.width, hex) == 4) {
            CHECK(size_of(&p) <= MOST_BYTES && parse_bytes(hex, size_of(&p), p.bytes));
        } else if (CHECK(sscanf(line, "%19s %d %s", name, &value, hex) == 3)) {
            compare(t, &p, name, value, hex);
            compared++;
        }
    }
    fclose(file);
    CHECK_SIZE(compared, 2 * (3 * 8 + 7 + 11 + 8 * 11 + 9 + 2 * 6 + 3));
}

static void sines(test *t)
{
    for (i32 angle = -180 * 65536; angle <= 180 * 65536; angle += 977) {
        const double radians = (double)angle / 65536.0 * acos(-1.0) / 180.0;
        i32 cosine, sine;
        distort_turn(angle, &cosine, &sine);
        if (!CHECK(fabs((double)cosine - cos(radians) * 0x1p30) < 6.0) ||
            !CHECK(fabs((double)sine - sin(radians) * 0x1p30) < 6.0))
            FAIL("angle %d", (int)angle);
    }
}

static void orders(test *t)
{
    bool seen[65536] = {false};
    size_t n = 0;
    for (u32 i = 0; i < 24; i++) {
        const u32 order = distort_order((u32)((((u64)i << 24) / 24u + 1u) << 8));
        u32 all = 0;
        for (u32 j = 0; j < 4; j++)
            all |= 1u << (order >> 4 * j & 15u);
        CHECK_SIZE(all, 15);
        n += order < 65536 && !seen[order];
        seen[order & 65535u] = true;
    }
    CHECK_SIZE(n, 24);
    CHECK_SIZE(distort_order(0), 0x3210);
    CHECK_SIZE(distort_order(UINT32_MAX), 0x0123);
}

static void limits(test *t)
{
    const distort_limits l = distort_limits_of((const float[]){15.0f, 0.25f, 1.0f, 0.0f, 0.5f});
    const u32 least[6] = {0}, most[6] = {~0u, ~0u, ~0u, ~0u, ~0u, ~0u};
    const distort_drawn low = distort_draw(l, least), high = distort_draw(l, most);
    CHECK_SIZE(l.rotate, 15 * 65536);
    CHECK(low.sine < 0 && low.sine == -high.sine && low.cosine == high.cosine);
    CHECK(fabs((double)high.sine * 0x1p-30 - sin(acos(-1.0) / 12.0)) < 1e-8);
    CHECK_SIZE(low.brightness, 49152);
    CHECK_SIZE(high.brightness, 81920);
    CHECK_SIZE(low.contrast, 0);
    CHECK_SIZE(high.contrast, 131072);
    CHECK_SIZE(low.saturation, 65536);
    CHECK_SIZE(high.saturation, 65536);
    CHECK_SIZE(low.hue, 32768);
    CHECK_SIZE(high.hue, 32768);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"as_torchvision", as_torchvision},
        {"sines", sines},
        {"orders", orders},
        {"limits", limits},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
