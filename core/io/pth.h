/* Files of PyTorch's torch.save.  A state dict in the format of zip files (PyTorch 1.6 and later)
   is read; nothing of the file is executed (io/pickle.h). */
#ifndef DPTI_PTH_H
#define DPTI_PTH_H

#include "base/bytes.h"
#include "dpt_error.h"

/* Returns whether the bytes are those of torch.save: a zip file, or a pickle of the old format. */
bool dpti_is_pth(const uint8_t *bytes, size_t n_bytes);

/* Makes the bytes of a safetensors file of a file of torch.save, with the same tensors.  The caller
   frees out->bytes.  Errors: DPT_E_FORMAT if the file is damaged, is of the old format, holds
   anything but a dict of tensors, or has tensors of more than `most` bytes; the message says what,
   and how to convert the file in PyTorch; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_pth_convert(const dpti_file_bytes *file, size_t most,
                                             dpti_content *out, dpt_error *error);

#endif
