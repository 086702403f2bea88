"""Statistics, figures and simulated worlds are computed from numbers: only loading reads files."""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Modules that read or write files, or look at the machine. `store.records` reads files too, but
# the analysis' statistics do without its records.
IO = {
    "isosweep.analysis.load",
    "isosweep.analysis.report",
    "isosweep.files",
    "isosweep.machine",
    "isosweep.store.paths",
    "isosweep.store.records",
    *("pathlib", "os", "io", "shutil", "subprocess", "time", "tempfile", "hydra", "omegaconf"),
    *("matplotlib", "jinja2", "torch", "mlflow"),
}


@cache
def imports(module: str) -> frozenset[str]:
    """Every module that `module` names in an import, at its top or inside a function."""
    path = ROOT / module.replace(".", "/")
    files = [each for each in (path.with_suffix(".py"), path / "__init__.py") if each.exists()]
    names = set()
    for node in ast.walk(ast.parse(files[0].read_text() if files else "")):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)


def reached(module: str) -> dict[str, str]:
    """Every module that importing `module` brings along, and which module of ours names it."""
    known: dict[str, str] = {}
    waiting = [module]
    while waiting:
        here = waiting.pop()
        new = imports(here) - known.keys()
        known |= dict.fromkeys(new, here)
        waiting += [name for name in new if name.startswith("isosweep.")]
    return known


@pytest.mark.parametrize(
    "path", sorted((ROOT / "analysis" / "statistics").glob("*.py")), ids=lambda path: path.stem
)
def test_statistics_reach_no_module_that_does_io(path: Path) -> None:
    brought = {
        f"{by} imports {name}"
        for name, by in reached(f"isosweep.analysis.statistics.{path.stem}").items()
        if name in IO or name.partition(".")[0] in IO
    }
    assert not brought, "\n".join(sorted(brought))


def test_what_reads_files_is_seen() -> None:
    assert "isosweep.files" in reached("isosweep.analysis.load")
