"""The package as a whole: declarations, version, statuses, keywords."""

import importlib.util
import os
import re
import shutil
import typing

import pytest

import dptrain
from dptrain import _library, _options, _structs
from dptrain._library import ffi, lib


def test_every_status_has_an_exception():
    names = ffi.typeof("dpt_status").relements
    statuses = {value for value in names.values() if value < 0}
    assert statuses == set(dptrain.errors.BY_STATUS)
    assert all(issubclass(kind, dptrain.Error) for kind in dptrain.errors.BY_STATUS.values())
    assert isinstance(_library.error_of(lib.DPT_E_NOT_FOUND, "x"), dptrain.errors.NotFoundError)


def test_a_library_of_another_version_is_refused():
    _library.check_version("0.2.7", "0.2.0")
    with pytest.raises(dptrain.errors.LibraryError, match=r"0\.3\.0.*0\.2\.0"):
        _library.check_version("0.3.0", "0.2.0")


def test_a_missing_library_is_named(program):
    text = "import os; os.environ['DPTRAIN_LIBRARY'] = '/nowhere/libdptrain.so'; import dptrain"
    code, _, error = program(text)
    assert code == 1
    assert "LibraryError" in error and "/nowhere/libdptrain.so" in error


# Fields that a keyword with another name sets, or that Trainer and fit set themselves.
RENAMED = {
    "rotate": "augment",
    "jitter": "augment",
    "mixup": "augment",
    "cutmix": "augment",
    "randaugment": "augment",
    "batch_norm": "batchnorm",
    "readmit_after": "readmit",
    "logit_rows": "rows_of_logits",
    "no_standby": "standby",
    "no_rest": "standby",
    "no_overlap": "overlap",
    "no_outer_momentum": "outer_momentum",
    "own_loss": "loss",
    "own_loss_user": "loss",
    "own_loss_deterministic": "loss_deterministic",
    "n_class_weights": "class_weights",
    "groups": "group",
    "n_groups": "group",
    "max_seconds": "max_time",
}
SET_BY_FIT = {"size", "test", "validation", "progress", "notice", "user", "wants_checkpoint"}


@pytest.mark.parametrize("kind, table", [("trainer", "TRAINER"), ("fit", "FIT")])
def test_every_field_of_the_options_has_a_keyword(kind, table):
    keywords = getattr(_options, table)
    fields = set(_structs.fields_of(f"dpt_{kind}_options")) - SET_BY_FIT
    assert len(fields) > 10
    assert {RENAMED.get(name, name) for name in fields} - set(keywords) == set()


def test_the_typed_keywords_are_those_that_are_taken():
    trainer, both = _options.TrainerOptions.__annotations__, _options.FitOptions.__annotations__
    assert set(trainer) == set(_options.TRAINER)
    assert set(both) <= set(_options.TRAINER) | set(_options.FIT)


def test_an_unknown_keyword_names_the_nearest(net, digits):
    with pytest.raises(TypeError, match="'momentun'; did you mean 'momentum'"):
        dptrain.fit(net, digits, momentun=0.9)
    with pytest.raises(ValueError, match="did you mean 'sgd'"):
        dptrain.fit(net, digits, devices="cpu", optimizer="sdg")


def test_an_outer_momentum_of_zero_is_not_the_default(net, digits):
    given, _ = _options.make("dpt_trainer_options", _options.TRAINER, {"outer_momentum": 0})
    assert given.no_outer_momentum and given.outer_momentum == 0
    given, _ = _options.make("dpt_trainer_options", _options.TRAINER, {"outer_momentum": 0.5})
    assert not given.no_outer_momentum and given.outer_momentum == 0.5
    with pytest.raises(ValueError, match="local steps are taken by several processes"):
        dptrain.fit(net, digits, devices="cpu", local_steps=4, outer_momentum=0)
    with dptrain.Trainer(net, digits, devices="cpu") as trainer:
        trainer.step()
        trainer.end_round()  # there is none


def test_an_outer_rate_of_zero_is_not_the_default(net, digits):
    given, _ = _options.make("dpt_trainer_options", _options.TRAINER, {"outer_lr": 0.5})
    assert given.outer_lr == 0.5
    with pytest.raises(ValueError, match="an outer learning rate of 0 is not in"):
        dptrain.fit(net, digits, devices="cpu", local_steps=4, outer_lr=0)
    with pytest.raises(ValueError, match="an outer learning rate of -1 is not in"):
        dptrain.fit(net, digits, devices="cpu", local_steps=4, outer_lr=-1)


@pytest.mark.parametrize(
    "value, expected", [(3, 3.0), (0.5, 0.5), ("90s", 90.0), ("10m", 600.0), ("2h", 7200.0)]
)
def test_times(value, expected):
    assert _options.seconds(value) == expected


@pytest.mark.parametrize("value", ["", "10x", "m", "1m1s"])
def test_times_that_are_none(value):
    with pytest.raises(ValueError, match="no time"):
        _options.seconds(value)


@pytest.mark.parametrize(
    "augment, why",
    [("rotate", "needs an angle"), ("jitter", "one to four"), ({"jitter": [0] * 5}, "one to four")],
)
def test_augmentations_that_are_none(augment, why):
    with pytest.raises(ValueError, match=why):
        _options.make("dpt_trainer_options", _options.TRAINER, {"augment": augment})


@pytest.mark.parametrize("value", [True, False, 1, "weights"])
def test_what_is_divided_is_a_word(value):
    with pytest.raises(ValueError, match="shard"):
        _options.make("dpt_trainer_options", _options.TRAINER, {"shard": value})


def test_options_become_fields():
    values = dict(
        split="3:1", standby="off", overlap=False, optimizer="adamw", loss="absolute",
        batchnorm="frozen", augment="crop:2,flip,erase,rotate:15,jitter:0.4:0.3,mixup:0.2,cutmix,randaugment:3", init="normal:0.5", shuffle=False,
        device_timeout="2m", readmit=5, recompute=True, rows_of_logits=7, shard="optimizer", offload=True, class_weights=[1, 2],
    )  # fmt: skip
    o, _keep = _options.make("dpt_trainer_options", _options.TRAINER, values)
    assert (o.split.kind, _library.text(o.split.value)) == (lib.DPT_SPLIT_PROPORTIONS, "3:1")
    assert (o.no_standby, o.no_overlap, o.no_shuffle) == (True, True, True)
    assert o.optimizer == lib.DPT_OPTIMIZER_ADAMW
    assert o.loss == lib.DPT_LOSS_ABSOLUTE_ERROR
    assert o.batch_norm == lib.DPT_BATCH_NORM_FROZEN
    assert (o.augment.crop_padding, o.augment.flip, o.augment.erase) == (2, True, 0.25)
    assert (o.rotate, o.jitter.hue, o.cutmix) == (15, 0, 1)
    assert o.mixup == pytest.approx(0.2)
    assert (o.randaugment.ops, o.randaugment.magnitude) == (3, 9)
    assert (o.jitter.brightness, o.jitter.contrast) == pytest.approx((0.4, 0.3))
    assert (o.init.kind, o.init.deviation) == (lib.DPT_INIT_NORMAL, 0.5)
    assert (o.device_timeout, o.readmit_after, o.logit_rows) == (120, 5, 7)
    assert o.recompute == lib.DPT_RECOMPUTE_ON
    assert (o.shard, o.offload) == (lib.DPT_SHARD_OPTIMIZER, True)
    assert list(o.class_weights[0 : o.n_class_weights]) == [1, 2]
    f, _keep = _options.make(
        "dpt_fit_options",
        _options.FIT,
        dict(schedule="step", step_every=3, step_factor=0.5, checkpoint_every="10m", max_time="1h"),
    )
    assert (f.schedule.kind, f.schedule.every) == (lib.DPT_SCHEDULE_STEP, 3)
    assert (f.checkpoint_every.seconds, f.max_seconds) == (600, 3600)
    f, _keep = _options.make("dpt_fit_options", _options.FIT, dict(checkpoint_every="2epochs"))
    assert f.checkpoint_every.epochs == 2


def test_recipes(net, digits):
    with pytest.raises(ValueError, match="no recipe for small"):
        dptrain.fit(net, digits, devices="cpu", recipe=True)
    if not hasattr(lib, "dpt_training_recipe"):
        pytest.skip("this library has no recipes")
    o, _keep = _options.make(
        "dpt_trainer_options", _options.TRAINER, {"recipe": "lenet", "lr": 0.25}
    )
    assert o.lr == 0.25 and o.optimizer == lib.DPT_OPTIMIZER_ADAMW
    assert dptrain.fit("mlp", digits, devices="cpu", recipe=True, epochs=1).steps == 5  # of 64


def test_groups():
    groups = _options.groups_of("*.bias:lr=2:decay=0,fc1.*:lr=0.5", "conv*")
    assert groups == [
        {"pattern": "conv*", "frozen": True},
        {"pattern": "*.bias", "lr_factor": 2, "weight_decay": 0, "has_weight_decay": True},
        {"pattern": "fc1.*", "lr_factor": 0.5},
    ]
    with pytest.raises(ValueError, match="momentum"):
        _options.groups_of({"fc1.*": {"momentum": 1}}, None)


def test_all_public_names_exist_and_have_docstrings():
    for name in dptrain.__all__:
        thing = getattr(dptrain, name)
        assert name.startswith("__") or not callable(thing) or thing.__doc__, name


def test_annotations_can_be_evaluated():
    for function in (dptrain.predict, dptrain.evaluate, dptrain.Dataset.read, dptrain.from_torch):
        assert "return" in typing.get_type_hints(function)


def test_devices_are_listed():
    found = dptrain.available_devices()
    assert any(device.id == "cpu" and device.threads > 0 for device in found)


def test_declarations_as_text_are_the_same():
    """Without cffi at build time the module holds text, which cffi parses."""
    pytest.importorskip("pycparser", reason="pycparser is not installed")
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    script = os.path.join(os.path.dirname(folder), "python", "declarations.py")
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    spec = importlib.util.spec_from_file_location("declarations", script)
    declarations = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(declarations)
    text = declarations.without_bodies(declarations.preprocess("cc", os.path.dirname(folder)))
    module = {}
    exec(declarations.TEXT_MODULE.format(text=text), module)
    names = re.findall(r"^} (dpt_\w+);", text, re.M)
    assert len(names) > 40
    for name in names:
        assert module["ffi"].sizeof(name) == ffi.sizeof(name), name


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", dptrain.__version__)
