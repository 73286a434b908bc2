/* Which files of a folder are pictures. */
#ifndef DPTI_PICTURE_FILES_H
#define DPTI_PICTURE_FILES_H

#include "data/listing.h"

/* Returns whether the end of a file's name is one that pictures have, such as ".jpg", in capital or
   small letters. */
bool dpti_is_picture_name(const char *name);

/* Returns whether a file has the first bytes of a picture; `otherwise` if it cannot be read, or is
   no regular file. */
bool dpti_begins_as_picture(const char *path, bool otherwise);

/* Takes files out of the listing of a folder that are pictures neither by their names nor by their
   first bytes, such as Thumbs.db, desktop.ini and notes.txt, and returns how many these are.  Files
   with the name of a picture are not opened; a file that cannot be opened stays. */
size_t dpti_keep_pictures(const char *folder, dpti_listing *files);

#endif
