"""The config of a run: from plain values, changed by name, refused when it makes no sense; and the recipes."""

import dataclasses
import json

import pytest
import torch

from eda import Eda, InputError
from eda.data.storage.batches import BatchPlan
from eda.recipes import RECIPES
from eda.train import DataConfig, OptimizerConfig, TrainConfig, WatchConfig, overridden

# -- settings by name --------------------------------------------------------------------------------------

CHANGES = {
    "seed=4": ("seed", 4),
    "optimizer.lr=3e-4": ("optimizer.lr", 3e-4),
    "optimizer.bfloat16=True": ("optimizer.bfloat16", True),
    "data.max_pieces=(2, 4, 8)": ("data.max_pieces", (2, 4, 8)),
    "data.max_pieces=[2, 4]": ("data.max_pieces", (2, 4)),
    "data.train=/some where/a=b": ("data.train", "/some where/a=b"),
    "data.train='2024'": ("data.train", "2024"),
    "data.augmentation.keep=0.7": ("data.augmentation.keep", 0.7),
    "model.network.cross_neighbors=None": ("model.network.cross_neighbors", None),
    "model.network.normals=absent": ("model.network.normals", "absent"),
    "model.noise_std=1": ("model.noise_std", 1),
    "watch.log_every=7": ("watch.log_every", 7),
}


def value_at(config: object, path: str) -> object:
    for name in path.split("."):
        config = getattr(config, name)
    return config


@pytest.mark.parametrize("setting", CHANGES)
def test_a_setting_is_changed_by_its_name_and_nothing_else_is(setting):
    path, expected = CHANGES[setting]
    base = RECIPES["breaking-bad"]()
    changed = overridden(base, [setting])
    assert value_at(changed, path) == expected
    assert type(value_at(changed, path)) is type(expected)
    back = overridden(changed, [f"{path}={value_at(base, path)!r}"])
    assert back == base


def test_the_last_of_two_counts():
    assert overridden(TrainConfig(), ["seed=1", "optimizer.lr=0.5", "seed=2"]).seed == 2


def test_nothing_changed_is_the_same():
    assert overridden(TrainConfig(), []) == TrainConfig()


WRONG = {
    "no value": ("optimizer.lr", "expected name=value"),
    "unknown": ("optimizer.rate=1", "no setting 'optimizer.rate'"),
    "unknown table": ("optimiser.lr=1", "no setting 'optimiser.lr'"),
    "below a value": ("seed.more=1", "no setting 'seed.more'"),
    "no name": ("=1", "no setting ''"),
    "a dot too many": ("optimizer..lr=1", "no setting"),
    "a table replaced by a value": ("model.network=3", "expected a table"),
    "an unknown name in a table": ("watch={'often': 1}", "unknown setting 'often'"),
    "steps in words": ("optimizer.steps=many", "steps must be a whole number"),
    "half a step": ("optimizer.steps=1.5", "steps must be a whole number"),
    "no steps": ("optimizer.steps=0", "steps"),
    "a negative rate": ("optimizer.lr=-1", "lr must be a positive number"),
    "a rate in words": ("optimizer.lr=fast", "lr must be a positive number"),
    "an average that never moves": ("optimizer.ema=1", "ema must be below 1"),
    "negative warm-up": ("optimizer.warmup=-1", "warmup"),
    "fewer draws than none": ("data.draws=-1", "draws"),
    "half a worker": ("data.workers=0.5", "workers"),
    "never": ("watch.log_every=0", "log_every"),
    "a share above one": ("data.augmentation.keep=1.5", "keep must be a number from 0 to 1"),
    "an unknown kind of normals": ("model.network.normals=sideways", "normals must be one of"),
    "an unknown sampler": ("model.tau_sampler=sometimes", "tau_sampler"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_setting_that_makes_no_sense_is_an_input_error(what):
    setting, message = WRONG[what]
    with pytest.raises(InputError, match=message):
        overridden(TrainConfig(), [setting])


UNCHECKED = {
    "seed=-1": "a negative seed fails in numpy when training begins",
    "seed=chance": "a seed in words fails in torch when training begins",
    "optimizer.ema=slow": "an average in words is compared with numbers: TypeError",
    "optimizer.bfloat16=maybe": "a switch in words counts as on",
    "data.max_pieces=8": "a number instead of several fails in `min` when training begins: TypeError",
    "data.max_pieces=(2, 'all')": "words among the numbers of a curriculum: TypeError",
    "data.augmentation.keep=most": "a share in words is compared with numbers: TypeError",
    "data.train=2024": "a folder whose name is a number becomes a number",
}


@pytest.mark.parametrize("setting", UNCHECKED, ids=UNCHECKED.values())
def test_a_setting_of_another_type_is_an_input_error(setting):
    """Or, for a folder, is taken as the text that it was."""
    try:
        config = overridden(TrainConfig(), [setting])
    except InputError:
        return
    assert config.data.train == "2024"


# -- from plain values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_survives_being_written_down(name):
    config = RECIPES[name]()
    assert TrainConfig.from_dict(json.loads(json.dumps(dataclasses.asdict(config)))) == config


def test_values_that_are_left_out_are_the_defaults():
    config = TrainConfig.from_dict({"optimizer": {"lr": 0.5}})
    assert config == TrainConfig(optimizer=OptimizerConfig(lr=0.5))


@pytest.mark.parametrize("values", [{"speed": 1}, {"data": {"speed": 1}}, {"data": 3}, [1], None])
def test_values_that_are_no_config_are_an_input_error(values):
    with pytest.raises(InputError):
        TrainConfig.from_dict(values)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (OptimizerConfig, "clip"),
        (OptimizerConfig, "accumulate"),
        (DataConfig, "points_per_batch"),
        (WatchConfig, "validation_steps"),
    ],
)
def test_nothing_may_be_zero_that_would_stop_a_run(kind, name):
    with pytest.raises(InputError, match=name):
        kind(**{name: 0})


# -- recipes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_a_run_that_could_begin(name):
    recipe = RECIPES[name]
    config = recipe()
    assert recipe.__doc__, "`eda train list` prints it"
    with torch.device("meta"):
        model = Eda(config.model)
    assert sum(parameter.numel() for parameter in model.parameters()) > 1000
    data = config.data
    BatchPlan(data.points_per_batch, config.model.num_points, data.max_pieces)
    assert data.points_per_batch >= config.model.num_points
    assert config.optimizer.warmup < config.optimizer.steps
    assert recipe() == config


def test_recipes_are_different_runs():
    configs = [recipe() for recipe in RECIPES.values()]
    assert all(a != b for i, a in enumerate(configs) for b in configs[:i])
