/* The file of the test part beside a file of the training part. */
#ifndef DPTI_TEST_NAME_H
#define DPTI_TEST_NAME_H

/* Returns the path with `word` in place of the last "train" of its last component: "test" and "val"
   are the words to try, in this order.  NULL: there is no "train", or memory is short.  The caller
   frees it. */
char *dpti_test_name(const char *path, const char *word);

#endif
