/* Decodes the first frame of a GIF with giflib (DPTRAIN_HAS_GIF). */
#include "data/image_formats.h"

#ifdef DPTRAIN_HAS_GIF
#include <gif_lib.h>
#include <stdlib.h>
#include <string.h>

enum { NO_COLOUR = -1 };

/* What giflib reads from. */
typedef struct input {
    const dpti_file_bytes *file;
    size_t at;
} input;

static int read_bytes(GifFileType *gif, GifByteType *to, int n_bytes)
{
    input *in = gif->UserData;
    const size_t left = in->file->n_bytes - in->at;
    const size_t n = n_bytes < 0 ? 0 : (size_t)n_bytes < left ? (size_t)n_bytes : left;
    memcpy(to, in->file->bytes + in->at, n);
    in->at += n;
    return (int)n;
}

static dpt_status fail_gif(const dpti_image_request *r, int code, dpt_error *error)
{
    const char *words = GifErrorString(code);
    if (code == D_GIF_ERR_NOT_ENOUGH_MEM) words = "out of memory";
    return dpti_image_damaged(r, "GIF", words ? words : "cut off", error);
}

/* Reads an extension.  That of the graphics may say which colour is transparent. */
static bool read_extension(GifFileType *gif, int *transparent)
{
    int kind = 0;
    GifByteType *data = NULL;
    GraphicsControlBlock graphics;
    if (DGifGetExtension(gif, &kind, &data) == GIF_ERROR) return false;
    if (data && kind == GRAPHICS_EXT_FUNC_CODE && data[0] == 4 &&
        DGifExtensionToGCB(data[0], data + 1, &graphics) == GIF_OK)
        *transparent = graphics.TransparentColor;
    while (data)
        if (DGifGetExtensionNext(gif, &data) == GIF_ERROR) return false;
    return true;
}

/* Goes to the first frame, whose place is then in gif->Image. */
static bool find_frame(GifFileType *gif, int *transparent)
{
    for (;;) {
        GifRecordType kind;
        if (DGifGetRecordType(gif, &kind) == GIF_ERROR) return false;
        if (kind == IMAGE_DESC_RECORD_TYPE) return DGifGetImageDesc(gif) == GIF_OK;
        if (kind != EXTENSION_RECORD_TYPE || !read_extension(gif, transparent)) return false;
    }
}

/* Colours as values of 8 bits; without a table an index is a grey. */
typedef struct colours {
    uint8_t values[256][3];
} colours;

static void find_colours(const GifFileType *gif, int transparent, colours *out)
{
    const ColorMapObject *map = gif->Image.ColorMap ? gif->Image.ColorMap : gif->SColorMap;
    memset(out, 0, sizeof *out);
    for (int i = 0; i < 256; i++) {
        if (i == transparent || (map && i >= map->ColorCount)) continue;
        out->values[i][0] = map ? map->Colors[i].Red : (uint8_t)i;
        out->values[i][1] = map ? map->Colors[i].Green : (uint8_t)i;
        out->values[i][2] = map ? map->Colors[i].Blue : (uint8_t)i;
    }
}

/* Rows of an interlaced frame come in four passes. */
static bool decode_rows(GifFileType *gif, const dpti_image_request *r, const colours *table,
                        uint8_t *line)
{
    static const size_t first[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
    const GifImageDesc *frame = &gif->Image;
    const size_t height = (size_t)frame->Height, width = (size_t)frame->Width;
    const size_t n_passes = frame->Interlace ? 4 : 1, channels = r->shape->channels;
    uint8_t *row = line + width;
    for (size_t pass = 0; pass < n_passes; pass++)
        for (size_t y = frame->Interlace ? first[pass] : 0; y < height;
             y += frame->Interlace ? step[pass] : 1) {
            if (DGifGetLine(gif, line, frame->Width) == GIF_ERROR) return false;
            for (size_t x = 0; x < width; x++)
                memcpy(row + 3 * x, table->values[line[x]], 3);
            uint8_t *to =
                r->pixels +
                (((size_t)frame->Top + y) * r->shape->width + (size_t)frame->Left) * channels;
            dpti_image_convert(&(dpti_decoded_pixels){row, 3, false}, width, to, channels);
        }
    return true;
}

/* What the frame leaves free of the screen is transparent, and so black. */
static dpt_status decode(GifFileType *gif, const dpti_image_request *r, int transparent,
                         dpt_error *error)
{
    colours table;
    const dpti_image_shape *shape = r->shape;
    uint8_t *line = malloc(4 * (size_t)gif->Image.Width + 1);
    if (!line) return dpti_image_no_memory(r, error);
    memset(r->pixels, 0, shape->height * shape->width * shape->channels);
    find_colours(gif, transparent, &table);
    const bool done = decode_rows(gif, r, &table, line);
    free(line);
    return done ? DPT_OK : fail_gif(r, gif->Error, error);
}

static size_t larger(int a, int b)
{
    const int most = a > b ? a : b;
    return most > 0 ? (size_t)most : 0;
}

/* A frame that is larger than the screen enlarges it. */
static dpt_status read_frame(GifFileType *gif, dpti_image_request *r, dpt_error *error)
{
    int transparent = NO_COLOUR;
    const GifImageDesc *frame = &gif->Image;
    if (!find_frame(gif, &transparent)) return fail_gif(r, gif->Error, error);
    if (frame->Left < 0 || frame->Top < 0 || frame->Width < 1 || frame->Height < 1)
        return dpti_image_damaged(r, "GIF", "a frame without pixels", error);
    DPT_TRY(dpti_image_check_size(r, larger(gif->SHeight, frame->Top + frame->Height),
                                  larger(gif->SWidth, frame->Left + frame->Width), error));
    return r->shape ? decode(gif, r, transparent, error) : DPT_OK;
}

dpt_status dpti_read_gif(dpti_image_request *r, dpt_error *error)
{
    input in = {.file = r->file};
    int code = 0;
    GifFileType *gif = DGifOpen(&in, read_bytes, &code);
    if (!gif) return fail_gif(r, code, error);
    const dpt_status status = read_frame(gif, r, error);
    (void)DGifCloseFile(gif, &code);
    return status;
}

#else

dpt_status dpti_read_gif(dpti_image_request *r, dpt_error *error)
{
    return dpti_image_no_library(r, "GIF", "libgif-dev", error);
}

#endif
