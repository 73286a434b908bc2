"""Text from language models, and tokenizers."""

import json

import numpy as np
import pytest

import dptrain
from dptrain.errors import ClosedError, FormatError, InvalidError, NotFoundError, StateError

TEXT = "the cat sat on the mat, and the dog sat on the log. " * 40


@pytest.fixture(scope="module")
def language(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(TEXT)
    net = dptrain.Model("gpt:1:2:32:32")
    data = dptrain.Dataset.open("text:32", str(path))
    dptrain.fit(
        net, data, devices="cpu:threads=1", max_steps=60, optimizer="adamw", lr=0.01, batch_size=16
    )
    return net


def test_the_likeliest_tokens(language):
    prompt = np.frombuffer(b"the cat ", np.uint8).astype(np.int32)
    added = dptrain.generate(language, prompt, tokens=6)
    assert added.dtype == np.int32 and added.shape == (6,)
    ids = list(prompt)
    for token in added:  # the network is causal: what stands behind does not matter
        whole = np.array([ids + [0] * (32 - len(ids))], np.int32)
        logits = dptrain.predict(language, whole, devices="cpu", outputs="logits")
        assert int(logits[0, len(ids) - 1].argmax()) == token
        ids.append(token)
    text = dptrain.generate(language, "the cat ", tokens=6)
    assert text == bytes(added.astype(np.uint8)).decode()
    assert dptrain.generate(language, b"the cat ", tokens=6) == text.encode()
    assert set(text) <= set(TEXT)


def test_drawn_tokens_and_ends(language):
    def draw(**how):
        return list(dptrain.generate(language, [116], tokens=12, temperature=2.0, **how))

    assert draw(seed=1) == draw(seed=1) and draw(seed=1) != draw(seed=2)
    assert draw(top_k=1) == list(dptrain.generate(language, [116], tokens=12))
    all_of_them = draw(seed=1)
    assert draw(seed=1, stop=[all_of_them[4]]) == all_of_them[: all_of_them.index(all_of_them[4])]
    seen = []
    assert draw(seed=1, on_token=lambda t: seen.append(t) or len(seen) == 3) == all_of_them[:3]
    assert seen == all_of_them[:3]
    full = dptrain.generate(language, [116], tokens=100)
    assert len(full) == 32, "the network reads 32 tokens, and the last one is not read"


def test_what_is_wrong(language, net):
    with pytest.raises(InvalidError, match="empty"):
        dptrain.generate(language, "")
    with pytest.raises(InvalidError, match="256|300"):
        dptrain.generate(language, [300])
    with pytest.raises(InvalidError, match="integers"):
        dptrain.generate(language, [[1, 2]])
    with pytest.raises(InvalidError, match="temperature"):
        dptrain.generate(language, "a", top_k=3)
    with pytest.raises(InvalidError, match="1 or more"):
        dptrain.generate(language, "a", tokens=0)
    with pytest.raises(InvalidError, match="32|33|40"):
        dptrain.generate(language, [1] * 40)
    with pytest.raises(StateError, match="no weights"):
        dptrain.generate(dptrain.Model("gpt:1:2:32:32", input=(32,), classes=256), "a")
    with pytest.raises(InvalidError):
        dptrain.generate(net.initialize(), [1, 2])


def characters():
    """GPT-2's characters of the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(others)) for b in range(256)]


@pytest.fixture()
def tokenizer(tmp_path):
    letters = characters()
    vocabulary = {letter: i for i, letter in enumerate(letters)}
    vocabulary["th"], vocabulary["the"] = 256, 257
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    (tmp_path / "merges.txt").write_text("#version: 0.2\nt h\nth e\n")
    return dptrain.Tokenizer(tmp_path)


def test_tokenizers(tokenizer, tmp_path):
    assert tokenizer.vocabulary == 258 and tokenizer.find("the") == 257
    assert tokenizer.find("nothing") is None
    ids = tokenizer.encode("the th\u00e9")
    assert ids.dtype == np.int32
    assert list(ids) == [257, 32, 256, 0xC3, 0xA9]
    assert tokenizer.decode(ids) == "the th\u00e9"
    assert tokenizer.decode_bytes(ids[:-1]) == b"the th\xc3" and tokenizer.decode([]) == ""
    assert len(tokenizer.encode("")) == 0 and list(tokenizer.encode(b"\xff")) == [0xFF]
    with pytest.raises(InvalidError, match="258"):
        tokenizer.decode([1, 258])
    with pytest.raises(NotFoundError):
        dptrain.Tokenizer(tmp_path / "nothing")
    (tmp_path / "vocab.json").write_text("{")
    with pytest.raises(FormatError):
        dptrain.Tokenizer(tmp_path)
    tokenizer.close()
    with pytest.raises(ClosedError):
        tokenizer.encode("a")


def test_text_by_a_tokenizer(tokenizer):
    words = dptrain.Model("gpt:1:2:32:16", input=(16,), classes=258).initialize(seed=1)
    ids = dptrain.generate(words, [257, 32], tokens=5)
    assert dptrain.generate(words, "the ", tokens=5, tokenizer=tokenizer) == tokenizer.decode(ids)
    with pytest.raises(InvalidError, match="258.*tokenizer"):
        dptrain.generate(words, "the ")


def test_adapters(language, tmp_path):
    path = tmp_path / "other.txt"
    path.write_text("a cow ate the hay. " * 60)
    data = dptrain.Dataset.open("text:32", str(path))
    net = language.copy()
    before, loss = net.weights, dptrain.evaluate(net, data, devices="cpu").loss
    options = {"devices": "cpu:threads=1", "max_steps": 30, "optimizer": "adamw", "lr": 0.02}
    run = dptrain.fit(
        net, data, lora="4:8", checkpoint=str(tmp_path / "kept"), batch_size=8, **options
    )
    assert run.net is net and run.steps == 30
    after = net.weights
    changed = [n for n, w in after.items() if not np.array_equal(w, before[n])]
    assert changed and all("c_attn" in name for name in changed), changed
    assert dptrain.evaluate(net, data, devices="cpu").loss < 0.8 * loss
    difference = after[changed[0]] - before[changed[0]]
    assert np.linalg.matrix_rank(difference, tol=1e-4) <= 4
    assert (tmp_path / "kept" / "adapter_model.safetensors").exists()
    assert not (tmp_path / "kept" / "model.safetensors").exists()
    net.save(tmp_path / "whole.safetensors")
    other = dptrain.Model("gpt:1:2:32:32")
    dptrain.fit(other, data, load=tmp_path / "whole.safetensors", lora=2, batch_size=8, **options)
    assert other.has_weights and dptrain.generate(other, "a", tokens=3)


def test_wrong_adapters(language, net):
    data = (np.zeros((4, 32), np.int32), np.zeros((4, 32), np.int32))
    with pytest.raises(InvalidError, match="RANK"):
        dptrain.fit(language.copy(), data, lora="many")
    with pytest.raises(InvalidError, match="RANK"):
        dptrain.fit(language.copy(), data, lora="0")
    with pytest.raises(InvalidError, match="language models by name"):
        dptrain.fit(net, data, lora=4)
    with pytest.raises(StateError, match="load="):
        dptrain.fit("gpt:1:2:32:32", data, lora=4)
    with pytest.raises(InvalidError, match="nothing"):
        dptrain.fit(language.copy(), data, lora="4:8:nothing", devices="cpu", max_steps=1)
    with pytest.raises(InvalidError, match="fresh"):
        dptrain.fit(language.copy(), data, lora=4, fresh="x")
