/* What a model's adapters are (lora_options.h). */
#include "graph/lora_options.h"

#include <stdlib.h>
#include <string.h>

void dpti_lora_free(dpti_lora *lora)
{
    if (!lora) return;
    free(lora->layers);
    free(lora->base);
    free(lora);
}

const char *dpti_lora_next_name(const char **list, size_t *length)
{
    const char *name = *list;
    if (!name || !*name) return NULL;
    *length = strcspn(name, ",");
    *list = name + *length + (name[*length] == ',');
    return name;
}
