/* The host's view of an array in a device's memory.  If the device's memory is host memory, the
   view is that memory; otherwise it is a staging copy that is updated in either direction. */
#ifndef DPTI_VIEW_H
#define DPTI_VIEW_H

#include "device/buffer.h"

typedef struct dpti_view {
    const dpti_buffer *buffer; /* NULL: the view is not open */
    float *host;
    bool staged; /* `host` is a copy, whose contents are undefined at first */
} dpti_view;

/* [driver] Opens a view of the first `count` float32 of a buffer that outlives the view.  Fails as
   dpti_host_alloc does. */
DPT_CHECK_RESULT dpt_status dpti_view_open(const dpti_buffer *buffer, size_t count, dpti_view *out);
void dpti_view_close(dpti_view *view); /* [driver] accepts a zeroed view; zeroes it */
/* [driver] Copy elements [begin, end) from the device, or to it, and wait.  They do nothing if the
   view is the device's memory.  They fail as transfers do. */
DPT_CHECK_RESULT dpt_status dpti_view_download(const dpti_view *view, size_t begin, size_t end);
DPT_CHECK_RESULT dpt_status dpti_view_upload(const dpti_view *view, size_t begin, size_t end);

#endif
