"""`eda --plugin MODULE` and installed plugins: what they register is there for the command."""

import json
import sys
from importlib.metadata import EntryPoint

import pytest
from typer.testing import CliRunner

import eda.cli.plugins
from eda import Eda, EdaConfig, InputError
from eda.cli import app

pytestmark = pytest.mark.usefixtures("registries")

PLUGIN = '''
import eda
from support.small_datasets import lumpy_example
from eda.data import register_source
from eda.flow import Solver, Table, sample_noise
from eda.recipes import RECIPES
from support.custom_networks import CentroidNetwork

def quick() -> object:
    """A recipe of a plugin.

    Its second paragraph is not listed.
    """
    return RECIPES["fracture-small"]()

class Lumps(list):
    pass

eda.register_network("centroids", CentroidNetwork)
eda.register_noise("same", sample_noise)
eda.register_solver("midpoint", Solver(Table(((), (0.5,)), (0.0, 1.0), (0.0, 0.5))))
eda.register_recipe("quick", quick)
register_source("lumps", lambda text: Lumps(lumpy_example(i, 2, 20) for i in range(int(text))))
'''


@pytest.fixture
def plugin(tmp_path, monkeypatch) -> str:
    """A module in the working folder, which is not on the path."""
    (tmp_path / "my_plugin.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_plugin", raising=False)
    yield "my_plugin"
    sys.modules.pop("my_plugin", None)


def said(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_a_model_of_a_plugin_is_evaluated_and_checked(plugin, tmp_path):
    from support.custom_networks import CentroidNetwork

    with pytest.raises(InputError, match="neither a folder nor"):
        said("evaluate", "--data", "lumps:3", "--model", "fracture-small")
    said("--plugin", plugin, "train", "list")
    Eda(EdaConfig(noise="same"), network=CentroidNetwork()).save(tmp_path / "model.safetensors")
    words = ("--model", tmp_path / "model.safetensors", "--device", "cpu", "--points", 40, "--steps", 2, "--json", "-")
    report = json.loads(said("--plugin", plugin, "evaluate", "--data", "lumps:3", "--solver", "midpoint", *words))
    assert (report["puzzles"], report["solver"]) == (3, "midpoint")
    checked = said("--plugin", plugin, "check", tmp_path / "model.safetensors", "--draws", 1, "--json")
    assert json.loads(checked)["holds"]


def test_recipes_of_a_plugin_are_listed_by_their_first_line(plugin):
    listed = said("--plugin", plugin, "train", "list").splitlines()
    assert "quick            A recipe of a plugin." in listed
    assert not any("second paragraph" in line for line in listed)
    assert any(line.startswith("fracture-small ") for line in listed)


@pytest.mark.parametrize("module", ["nowhere_to_be_found", "", "a..b", "broken_plugin"])
def test_a_module_that_cannot_be_imported_is_an_input_error(tmp_path, monkeypatch, module):
    (tmp_path / "broken_plugin.py").write_text("import nowhere_to_be_found")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(InputError, match=f"--plugin {module}: cannot be imported"):
        said("--plugin", module, "train", "list")


def test_an_installed_plugin_is_loaded_by_its_entry_point(plugin, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    point = EntryPoint("mine", plugin, "eda.plugins")
    asked = []
    monkeypatch.setattr(eda.cli.plugins, "entry_points", lambda group: asked.append(group) or [point])
    assert "quick " in said("train", "list")
    assert asked == ["eda.plugins"]


def test_an_installed_plugin_that_cannot_be_imported_is_an_input_error(monkeypatch):
    point = EntryPoint("mine", "nowhere_to_be_found", "eda.plugins")
    monkeypatch.setattr(eda.cli.plugins, "entry_points", lambda group: [point])
    with pytest.raises(InputError, match="the plugin mine = nowhere_to_be_found cannot be imported"):
        said("train", "list")


def test_a_recipe_that_is_taken_is_an_input_error():
    with pytest.raises(InputError, match="the recipe 'ablation' exists already"):
        eda.register_recipe("ablation", lambda: None)


def test_a_source_that_is_taken_is_an_input_error():
    from eda.data import register_source

    for kind in ("fracture", "kitti"):
        with pytest.raises(InputError, match=f"the source '{kind}' exists already"):
            register_source(kind, lambda text: [])
