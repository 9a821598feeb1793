"""What the package offers by name, and that it is there before torch is loaded."""

import subprocess
import sys

import pytest

import eda


@pytest.mark.parametrize("name", eda.__all__)
def test_public_names_resolve(name):
    assert getattr(eda, name).__name__ == name


def test_public_names_are_those_that_are_known():
    assert set(eda.__all__) == set(eda._HOME)
    assert {"Eda", "Pieces", "SE3", "load", "InputError"} <= set(eda.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        eda.nonsense  # noqa: B018
    with pytest.raises(ImportError, match="nonsense"):
        from eda import nonsense  # noqa: F401
    assert not hasattr(eda, "nonsense")


@pytest.mark.parametrize("module", ["eda", "eda.errors", "eda.cli"])
def test_importing_does_not_load_torch(module):
    code = f"import sys, {module}; print(sorted({{'torch', 'numpy', 'scipy'}} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == "[]"


def test_public_names_are_listed():
    code = "import eda; print(sorted(set(eda.__all__) - set(dir(eda))))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == "[]"
