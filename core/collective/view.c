/* Views of arrays in devices' memory. */
#include "collective/view.h"
#include "device/buffer.h"
#include "device/stream.h"

dpt_status dpti_view_open(const dpti_buffer *buffer, size_t count, dpti_view *out)
{
    void *host = dpti_host_pointer(buffer);
    const bool staged = host == NULL;
    if (staged) DPT_TRY(dpti_host_alloc(buffer->device, count * sizeof(float), &host));
    *out = (dpti_view){.buffer = buffer, .host = host, .staged = staged};
    return DPT_OK;
}

void dpti_view_close(dpti_view *view)
{
    const dpti_view closed = *view;
    *view = (dpti_view){.buffer = NULL};
    if (closed.staged) dpti_host_free(closed.buffer->device, closed.host);
}

dpt_status dpti_view_download(const dpti_view *view, size_t begin, size_t end)
{
    if (!view->staged || begin == end) return DPT_OK;
    DPT_TRY(dpti_download(view->host + begin, view->buffer, begin * sizeof(float),
                          (end - begin) * sizeof(float)));
    return dpti_sync(view->buffer->device);
}

dpt_status dpti_view_upload(const dpti_view *view, size_t begin, size_t end)
{
    if (!view->staged || begin == end) return DPT_OK;
    DPT_TRY(dpti_upload(view->buffer, begin * sizeof(float), view->host + begin,
                        (end - begin) * sizeof(float)));
    return dpti_sync(view->buffer->device);
}
