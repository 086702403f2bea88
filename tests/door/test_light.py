"""`import isosweep` brings nothing, and each thing that it offers brings what it needs alone."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import isosweep
from tests.door.conftest import ROOT

# What takes long to import, and what a notebook may lack.
HEAVY = ("pandas", "numpy", "pydantic", "hydra", "scipy", "plotly", "matplotlib", "torch", "optuna")


def brought(code: str, cwd: Path) -> set[str]:
    """Modules that an interpreter has after `code`, and had not before."""
    script = f"import sys; before = set(sys.modules)\n{code}\nprint(*(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_the_package_alone_brings_itself_and_typing(tmp_path: Path) -> None:
    found = brought("import isosweep; dir(isosweep); isosweep.__version__", tmp_path)
    own = {name for name in found if name.partition(".")[0] == "isosweep"}
    assert own == {"isosweep", "isosweep.version"}
    assert {name.partition(".")[0] for name in found} - {"isosweep"} <= sys.stdlib_module_names


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("isosweep.IsosweepError", set()),
        ("isosweep.open('few_problems', 'sweeps/studies')", {"numpy", "pydantic"}),
        ("isosweep.sweeps('sweeps/studies')", {"numpy", "pydantic", "hydra", "pandas"}),
        ("isosweep.make_plan(budget=2e10).price", {"numpy", "pydantic", "hydra"}),
    ],
)
def test_what_is_asked_for_brings_what_it_needs_alone(
    code: str, allowed: set[str], studies: Path
) -> None:
    found = brought(f"import isosweep; {code}", studies)
    assert {name for name in HEAVY if name in found} <= allowed


def test_type_checkers_are_told_of_all_that_is_offered() -> None:
    tree = ast.parse((ROOT / "isosweep" / "__init__.py").read_text())
    told = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module
        and "." in node.module
        and node.module != "isosweep.version"
        for alias in node.names
    }
    assert told == {name: getattr(isosweep, name).__module__ for name in told}
    assert set(dir(isosweep)) - set(vars(isosweep)) == told.keys()


def test_a_name_that_is_not_offered_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'isosweep' has no attribute 'opne'"):
        getattr(isosweep, "opne")  # noqa: B009
