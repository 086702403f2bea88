"""The page on Python, the docstrings of the door, and the notebooks do what they show."""

import ast
import doctest
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import isosweep
from isosweep.door import compared, planned, sweep
from tests.door.conftest import ROOT

_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture
def names(studies: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What examples may name, in the directory that they are run in."""
    monkeypatch.chdir(studies)
    whole = isosweep.open("few_problems", "sweeps/studies")
    return {"isosweep": isosweep, "sweep": whole, "small": whole.variants["few_problems"]}


def test_the_examples_of_the_page_are_as_shown(
    studies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(studies)
    path = str(ROOT / "docs" / "python.md")
    # The page names them itself.
    done = doctest.testfile(path, module_relative=False, globs={}, optionflags=_FLAGS)
    assert done.attempted >= 40
    assert not done.failed


@pytest.mark.parametrize(("module", "least"), [(sweep, 7), (planned, 2), (compared, 1)])
def test_the_examples_of_docstrings_are_as_shown(
    module: ModuleType, least: int, names: dict[str, Any]
) -> None:
    done = doctest.testmod(module, globs=names, optionflags=_FLAGS)
    assert done.attempted >= least
    assert not done.failed


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(
    path: Path, studies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(studies)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    namespace: dict[str, Any] = {}
    for number, cell in enumerate(document["cells"]):
        assert cell["id"]
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            shown = _execute("".join(cell["source"]), f"{path.name}[{number}]", namespace)
            # What a notebook shows of it.
            getattr(shown, "_repr_html_", shown.__repr__)()
    assert NOTEBOOKS


def _execute(source: str, name: str, namespace: dict[str, Any]) -> object:
    """Do what a cell says; the value of its last line, as a notebook shows it."""
    tree = ast.parse(source, name)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), namespace)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), name, "eval"), namespace)
