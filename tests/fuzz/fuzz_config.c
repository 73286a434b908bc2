/* Feeds arbitrary bytes to the reader of config.json.  A network that is read has numbers within
   their bounds that fit one another; a refusal is one printable line that names the file. */
#include "fuzz.h"
#include "text.h"

static void check_network(const dptm_network *n)
{
    const dptm_text *t = &n->text;
    const size_t most = 1 << 24;
    require(n->build && n->config && n->name && *n->name);
    require(t->layers >= 1 && t->layers <= DPTM_MOST_LAYERS);
    require(t->heads >= 1 && t->width >= 1 && t->width <= most);
    require(t->context >= 1 && t->context <= most && t->vocabulary >= 1 && t->vocabulary <= most);
    require(t->hidden >= 1 && t->hidden <= 4 * most && t->head >= 1 && t->head <= most);
    require(t->epsilon > 0 && t->rotary_base > 0);
    if (n->build == dptm_gpt) require(t->head * t->heads == t->width);
    if (n->build == dptm_llama) require(t->key_heads >= 1 && t->heads % t->key_heads == 0);
    require(strcmp(n->name, "input") == 0 || dptm_is_text(n->name));
}

/* The text that a network writes is read as the same network. */
static void read_again(dpt_context *context, const dptm_network *n)
{
    char text[2048];
    dptm_network again;
    const int length = n->config(&n->text, text, sizeof text);
    require(length > 0 && (size_t)length < sizeof text);
    const dptm_config_file file = {"input", text, (size_t)length};
    const dpt_status status = dptm_config_read(context, &file, &again);
    if (status == DPT_E_FORMAT) return; /* a hidden width, a base or an epsilon out of bounds */
    require(status == DPT_OK && again.build == n->build);
    require(again.text.width == n->text.width && again.text.head == n->text.head &&
            again.text.hidden == n->text.hidden && again.text.tied == n->text.tied &&
            again.text.context == n->text.context && again.text.heads == n->text.heads);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static dpt_context *context;
    dptm_network network;
    const dpt_context_options options = {.size = sizeof options, .devices = "none:0"};
    if (!context) require(dpt_context_create_with(&options, &context) == DPT_OK);
    const dptm_config_file file = {"input", (const char *)data, size};
    const dpt_status status = dptm_config_read(context, &file, &network);
    if (status == DPT_OK) {
        check_network(&network);
        read_again(context, &network);
        return 0;
    }
    require(status == DPT_E_FORMAT || status == DPT_E_UNSUPPORTED);
    const char *message = dpt_error_message(context);
    require(strncmp(message, "input", 5) == 0);
    for (const char *c = message; *c; c++)
        require(*c >= ' ' && *c <= '~');
    return 0;
}
