/* The search for the files of a data set. */
#ifndef DPTI_FIND_H
#define DPTI_FIND_H

#include "dpt_error.h"
#include "dptrain.h"

enum { DPTI_MAX_FILES = 5, DPTI_IMAGES_FILE = 0, DPTI_LABELS_FILE = 1 };

/* The files of one part: for IDX the images and the labels, for CIFAR the batches in order, for
   "folder" the folder that contains the classes' folders. */
typedef struct dpti_files {
    char *directory;             /* the folder in which they were found, owned */
    size_t count;                /* 0: none */
    char *paths[DPTI_MAX_FILES]; /* owned */
} dpti_files;

/* A part of a data set that is to be opened. */
typedef struct dpti_data_request {
    const char *name;      /* as dpt_dataset_open takes it; in find.c: "folder" for "folder:HxW" */
    const char *directory; /* NULL: the usual places are searched */
    dpt_part part;
    bool unread;                /* no picture of a folder is read (dpti_dataset_open_unread) */
    const dpt_context *context; /* gets notices; NULL: nobody does */
} dpti_data_request;

/* Searches the files of a part of "fashion-mnist", "mnist", "kmnist", "emnist:SPLIT", "cifar10",
   "cifar100", "cifar100:coarse" or "idx", gzipped or not, or the folder of a part of "folder".
   Searches `directory` if it is not NULL, else $DPTRAIN_DATA, the user's cache and the folder of
   the distribution's package.  Errors: DPT_E_NOT_FOUND; the message says where it searched and how
   to get the data. */
DPT_CHECK_RESULT dpt_status dpti_find_files(const dpti_data_request *request, dpti_files *out,
                                            dpt_error *error);
/* Accepts a zeroed struct. */
void dpti_files_free(dpti_files *files);

#endif
