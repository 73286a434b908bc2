/* Feeds arbitrary bytes to the reader of WebP images. */
#include "picture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    decode_pictures(data, size);
    return 0;
}
