/* The pictures below a folder, or of a list, for predictions.  Part of the public API: programs
 * include dptrain.h.
 */
#ifndef DPTRAIN_PICTURES_H
#define DPTRAIN_PICTURES_H

#include "dptrain/data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns whether a file begins as a picture of a format that dpt_picture_read knows.  A file that
   cannot be read does not.  Never fails. */
DPT_API bool dpt_is_picture(const char *path);

typedef struct dpt_pictures dpt_pictures;

/* Lists the pictures of a folder and of all folders below it, sorted by the bytes of their paths.
   Files and folders whose names begin with a dot are passed over, and so are files that are
   pictures neither by their names nor by their first bytes.  Links are followed.  The caller
   destroys `out`. Errors: DPT_E_NOT_FOUND; DPT_E_IO; DPT_E_NO_MEMORY; DPT_E_FORMAT if folders are
   nested more than 64 deep, as where a link leads back. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_pictures_find(dpt_context *context, const char *folder,
                                                      dpt_pictures **out);
/* Takes a list of n paths instead, in its order.  No file is looked at yet.  The caller destroys
   `out`.  Errors: DPT_E_INVALID; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_pictures_list(dpt_context *context,
                                                      const char *const *paths, size_t n,
                                                      dpt_pictures **out);
/* Accepts NULL.  Never fails.  Data sets of the pictures must be destroyed before. */
DPT_API void dpt_pictures_destroy(dpt_pictures *pictures);
/* Returns the number of pictures.  Never fails. */
DPT_API size_t dpt_pictures_count(const dpt_pictures *pictures);
/* Returns the number of other files, which were passed over.  Never fails. */
DPT_API size_t dpt_pictures_others(const dpt_pictures *pictures);
/* Returns the path of a picture, as in the list, or relative to the folder with "/" between names;
   NULL if there is no such picture.  Never fails. */
DPT_API const char *dpt_pictures_name(const dpt_pictures *pictures, size_t number);

/* How pictures become a data set. */
typedef struct dpt_pictures_options {
    size_t size; /* sizeof(dpt_pictures_options) */
    dpt_picture_shape shape;
    size_t outputs; /* of the model */
    /* A picture that cannot be read is a black image, and dpt_pictures_failure tells why.  false: a
       call that needs it fails. */
    bool skip_unreadable;
    size_t n_threads; /* as in dpt_dataset_reader */
} dpt_pictures_options;

/* Makes a data set without labels of the pictures, which several threads read when they are needed,
   ahead of the devices.  The pictures must outlive it.  Errors: DPT_E_INVALID; DPT_E_NO_MEMORY; and
   those of reading about 64 of the pictures, as of dpt_picture_read. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_pictures_open(dpt_context *context, dpt_pictures *pictures,
                                                      const dpt_pictures_options *options,
                                                      dpt_dataset **out);
/* Returns why a picture could not be read, once a call has needed it and with `skip_unreadable`;
   else NULL.  It belongs to the pictures.  No call may be reading them.  Never fails. */
DPT_API const char *dpt_pictures_failure(const dpt_pictures *pictures, size_t number);

#ifdef __cplusplus
}
#endif

#endif
