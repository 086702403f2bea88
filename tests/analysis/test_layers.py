"""Statistics, figures and simulated worlds are computed from numbers: only loading reads files."""

import ast
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
    *("matplotlib", "plotly", "jinja2", "torch", "mlflow"),
}


def imports(module: str) -> set[str]:
    """Every module that `module` names in an import, at its top or inside a function."""
    path = ROOT / f"{module.replace('.', '/')}.py"
    if not path.exists():
        path = path.with_suffix("") / "__init__.py"
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def exists(module: str) -> bool:
    path = ROOT / module.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def reached(module: str) -> dict[str, str]:
    """Every module that importing `module` brings along, and which module of ours names it."""
    known: dict[str, str] = {}
    waiting = [module]
    while waiting:
        here = waiting.pop()
        for name in imports(here) - known.keys():
            known[name] = here
            if name.startswith("isosweep.") and exists(name):
                waiting.append(name)
    return known


@pytest.mark.parametrize(
    "path", sorted((ROOT / "analysis" / "statistics").glob("*.py")), ids=lambda path: path.stem
)
def test_statistics_reach_no_module_that_does_io(path: Path) -> None:
    own = f"isosweep.analysis.statistics.{path.stem}"
    brought = {
        f"{by} imports {name}"
        for name, by in reached(own).items()
        if name in IO or name.partition(".")[0] in IO
    }
    assert not brought, "\n".join(sorted(brought))


def test_what_reads_files_is_seen() -> None:
    assert "isosweep.files" in reached("isosweep.analysis.load")
