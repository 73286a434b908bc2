"""Text from language models, and tokenizers."""

from __future__ import annotations

import os
from typing import Any, Callable, Iterable, Optional, Sequence, Union

import numpy as np

from ._context import Owned, context_for, device_list, plain_context
from ._library import encoded, ffi, lib
from ._structs import fill
from .errors import InvalidError
from .model import Model
from .predicting import check_weights
from .training import open_devices

_BYTES = 256


def _free(pointer: Any) -> None:
    """Frees what the library has allocated for the program."""
    import cffi

    libc = cffi.FFI()
    libc.cdef("void free(void *);")
    libc.dlopen(None).free(libc.cast("void *", int(ffi.cast("uintptr_t", pointer))))


def _ids(ids: Any, what: str) -> np.ndarray:
    array = np.asarray(ids)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidError(
            f"{what} are integers (n,), not {array.dtype} of the shape {array.shape}"
        )
    if array.size and (array.min() < -(2**31) or array.max() >= 2**31):
        raise InvalidError(f"{what} are out of range: {array.min()} to {array.max()}")
    return np.ascontiguousarray(array, np.int32)


class Tokenizer(Owned):
    """A tokenizer of byte-level BPE, such as those of GPT-2 and Llama 3.

    path   A tokenizer.json of Hugging Face, or a folder with tokenizer.json or with GPT-2's
           vocab.json and merges.txt.

    Errors: NotFoundError; FormatError if a file is damaged or is a tokenizer of another kind."""

    def __init__(self, path: Union[str, os.PathLike]):
        context = plain_context()
        self._node = context.make(
            "tokenizer", lib.dpt_tokenizer_open, context.pointer, encoded(path)
        )

    @property
    def vocabulary(self) -> int:
        """One more than the largest id."""
        return lib.dpt_tokenizer_vocabulary(self._get().get())

    def find(self, token: str) -> Optional[int]:
        """The id of the token with this text, such as "<|endoftext|>"; None if there is none."""
        found = lib.dpt_tokenizer_find(self._get().get(), token.encode())
        return found if found >= 0 else None

    def encode(self, text: Union[str, bytes]) -> np.ndarray:
        """The ids of a text: int32, (n,).  Texts of special tokens become their ids."""
        raw = text.encode() if isinstance(text, str) else bytes(text)
        ids, n = ffi.new("int32_t **"), ffi.new("size_t *")
        node = self._get()
        node.context.call(
            lambda: lib.dpt_tokenizer_encode(
                node.context.pointer, node.get(), raw, len(raw), ids, n
            )
        )
        try:
            return np.array(ffi.unpack(ids[0], n[0]) if n[0] else [], np.int32)
        finally:
            _free(ids[0])

    def decode(self, ids: Any) -> str:
        """The text of ids.  Bytes that are no UTF-8 become U+FFFD.  Errors: InvalidError for an id
        that no token has."""
        return self.decode_bytes(ids).decode("utf-8", "replace")

    def decode_bytes(self, ids: Any) -> bytes:
        """The text of ids as bytes: some ids end within a character."""
        array = _ids(ids, "ids")
        to, n = ffi.new("char **"), ffi.new("size_t *")
        node = self._get()
        given = ffi.from_buffer("int32_t[]", array)
        node.context.call(
            lambda: lib.dpt_tokenizer_decode(
                node.context.pointer, node.get(), given, len(array), to, n
            )
        )
        try:
            return ffi.buffer(to[0], n[0])[:]
        finally:
            _free(to[0])


def _prompt(prompt: Any, vocabulary: int, tokenizer: Optional[Tokenizer]) -> np.ndarray:
    if not isinstance(prompt, (str, bytes)):
        return _ids(prompt, "the ids of a prompt")
    if tokenizer is not None:
        return tokenizer.encode(prompt)
    if vocabulary != _BYTES:
        raise InvalidError(
            f"the network has a vocabulary of {vocabulary} tokens, which are no bytes: give tokenizer=, or a prompt of ids"
        )
    return np.frombuffer(prompt.encode() if isinstance(prompt, str) else prompt, np.uint8).astype(
        np.int32
    )


def _text(ids: np.ndarray, tokenizer: Optional[Tokenizer]) -> bytes:
    return tokenizer.decode_bytes(ids) if tokenizer is not None else ids.astype(np.uint8).tobytes()


def generate(
    net: Model,
    prompt: Any,
    *,
    tokens: int = 100,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 0.0,
    seed: int = 0,
    stop: Iterable[int] = (),
    tokenizer: Optional[Tokenizer] = None,
    devices: Union[str, Sequence[str], None] = "cpu",
    precision: Optional[str] = None,
    deterministic: bool = False,
    device_timeout: float = 0.0,
    on_token: Optional[Callable[[int], Any]] = None,
) -> Any:
    """Continues a prompt with a language model ("gpt:...", "llama:...", "lstm:...").

    prompt       Ids (n,), or text.  Text needs a tokenizer, or a network of bytes.
    tokens       The most tokens that are added.
    temperature, top_k, top_p
                 How a token is drawn, as in `transformers`; temperature 0, the default, takes the
                 likeliest one.
    seed         The same seed gives the same text.
    stop         Ids that end the text, and are no part of it.
    devices      One device.
    on_token     Called with each new id.  If it returns True, the text ends there.

    Gives what was added: ids (n,) as int32 if the prompt is ids; text, or bytes, if it is these.

    Errors: StateError if the network has no weights; InvalidError for ids that are out of range, a
    prompt that is empty or longer than the network reads, a network that is no language model, and
    for options that are out of range; UnsupportedError for a layer that cannot be read in steps."""
    check_weights(net)
    if tokens < 1:
        raise InvalidError(f"tokens is 1 or more, not {tokens}")
    if temperature == 0 and (top_k or top_p):
        raise InvalidError("top_k and top_p draw tokens, which needs a temperature above 0")
    devices = device_list(devices)
    context = context_for(devices)
    node = net._node(context)
    first = _prompt(prompt, net.outputs, tokenizer)
    if len(first) == 0:
        raise InvalidError("the prompt is empty: a network needs at least one token to continue")
    choices = min(net.outputs, tokenizer.vocabulary) if tokenizer is not None else net.outputs
    sampling, _ = fill(
        "dpt_sampling",
        {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed},
        "generate",
    )
    options, keep = fill(
        "dpt_generator_options",
        {
            "weights": net._weights_path,
            "context": len(first) + tokens,
            "device_timeout": device_timeout,
            "deterministic": deterministic,
        },
        "generate",
    )
    opened = open_devices(context, devices, precision)
    generator = None
    try:
        parents = (opened, node)
        arguments = [one.get() for one in parents]
        generator = context.make(
            "generator", lib.dpt_generator_create, *arguments, options, parents=parents
        )
        del keep
        ends = {int(one) for one in stop}
        added = _continue(generator, first, (choices, sampling, tokens, ends), on_token)
    finally:
        if generator is not None:
            generator.release()
        opened.release()
    if not isinstance(prompt, (str, bytes)):
        return added
    raw = _text(added, tokenizer)
    return raw if isinstance(prompt, bytes) else raw.decode("utf-8", "replace")


def _continue(
    generator: Any, first: np.ndarray, how: tuple, on_token: Optional[Callable[[int], Any]]
) -> np.ndarray:
    choices, sampling, tokens, ends = how
    context, pointer = generator.context, generator.get()
    most = lib.dpt_generator_context(pointer)
    added: list[int] = []
    drawn = ffi.new("int32_t *")
    read = ffi.from_buffer("int32_t[]", first)
    while len(added) < tokens:
        context.call(lib.dpt_generator_read, pointer, read, len(read))
        context.call(
            lib.dpt_sample, context.pointer, lib.dpt_generator_logits(pointer), choices, sampling,
            len(added), drawn,
        )  # fmt: skip
        if drawn[0] in ends:
            break
        added.append(drawn[0])
        if on_token is not None and on_token(drawn[0]) is True:
            break
        if most and lib.dpt_generator_tokens(pointer) == most:
            break
        read = ffi.new("int32_t[]", [drawn[0]])
    return np.array(added, np.int32)
