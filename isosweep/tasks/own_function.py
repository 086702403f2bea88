"""Whether a function of the user's own is there, found without importing what may be heavy."""

import ast
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from isosweep.config.task import CustomConfig
from isosweep.errors import SettingError

# Names that are offered for one that is not there.
_SHOWN = 3


def require_function(config: CustomConfig) -> None:
    """Raise SettingError where the function's module is not on the import path, or is Python whose
    text binds no such name. Nothing of it is executed."""
    setting, (module, _, name) = "task.custom.function", config.function.partition(":")
    spec = _found(module, config.directory)
    if spec is None:
        rule = f"no module {module!r} is on the import path"
        if config.directory is None:
            nearest = "task.custom.directory=DIRECTORY, the one that it lies in"
        else:
            rule += f", nor in task.custom.directory={config.directory}"
            nearest = f"{setting}=MODULE:{name}, of a module that is there"
        raise SettingError(setting, config.function, rule, nearest)
    if spec.origin is None or not spec.origin.endswith(".py"):
        return
    bound = _bound(Path(spec.origin), config.function)
    if name not in bound and not bound & {"*", "__getattr__"}:
        rule = f"{spec.origin} has no {name}"
        own = sorted(each for each in bound if not each.startswith("_")) or ["FUNCTION"]
        nearest = " or ".join(f"{setting}={module}:{each}" for each in own[:_SHOWN])
        raise SettingError(setting, config.function, rule, nearest)


def _found(module: str, directory: str | None) -> ModuleSpec | None:
    """The module; of a package that holds it nothing is executed either."""
    first, *within = module.split(".")
    with _on_the_path(directory):
        # What runs as a script has no place to be found in.
        spec = None if first == "__main__" else importlib.util.find_spec(first)
    for name in within:
        if spec is None:
            return None
        spec = PathFinder.find_spec(f"{spec.name}.{name}", spec.submodule_search_locations)
    return spec


@contextmanager
def _on_the_path(directory: str | None) -> Iterator[None]:
    before = sys.path
    sys.path = [str(Path(directory).absolute()), *before] if directory else before
    try:
        yield
    finally:
        sys.path = before


def _bound(file: Path, function: str) -> set[str]:
    """Every name that the text binds in its module: functions and classes, and what is imported or
    assigned."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        rule = f"{file} cannot be imported: {error}"
        raise SettingError("task.custom.function", function, rule, "a module of Python") from None
    names = set()
    nodes: list[ast.AST] = [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        if isinstance(node, ast.alias):
            names.add(node.asname or node.name.partition(".")[0])
        nodes.extend(ast.iter_child_nodes(node))
    return names
