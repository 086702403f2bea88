"""Functions of the user's own, by import path: looked for without importing them, and imported."""

import ast
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from isosweep.config.values import RefusedError
from isosweep.errors import SettingError

# Names that are offered for one that is not there.
_SHOWN = 3


def import_path(text: str, example: str) -> str:
    """`text`, where it reads package.module:function; RefusedError, with an example, otherwise."""
    if _is_path(text):
        return text
    # A file's path, or a full stop for the colon.
    module, _, function = (
        text.replace(".py:", ":").replace("/", ".").rpartition(":" if ":" in text else ".")
    )
    meant = f"{module}:{function}"
    raise RefusedError("must read package.module:function", meant if _is_path(meant) else example)


def _is_path(text: str) -> bool:
    module, _, function = text.partition(":")
    return all(part.isidentifier() for part in [*module.split("."), function])


@dataclass(frozen=True, kw_only=True)
class OwnFunction:
    """A function of the user's own; what is wrong with it is an error of the setting naming it.

    `path`: package.module:function. `wanted`: what it has to be, for people. `directory`: what
    comes first on the import path for it, from the setting `place`; without one the working
    directory comes last there, so that what lies in it is in the place of no library.
    """

    setting: str
    path: str
    wanted: str
    directory: str | None = None
    place: str | None = None

    @property
    def module(self) -> str:
        """The module that it is in."""
        return self.path.partition(":")[0]

    @property
    def name(self) -> str:
        """Its name there."""
        return self.path.partition(":")[2]

    def require(self) -> None:
        """Raise SettingError where its module is not on the import path, or is Python whose text
        binds no such name. Nothing of it is executed."""
        file = self._file()
        if file is None:
            return
        bound = self._bound(file)
        if self.name not in bound and not bound & {"*", "__getattr__"}:
            own = sorted(each for each in bound if not each.startswith("_")) or ["FUNCTION"]
            nearest = " or ".join(f"{self.setting}={self.module}:{each}" for each in own[:_SHOWN])
            raise self.refused(f"{file} has no {self.name}", nearest)

    def source_sha256(self) -> str:
        """Sha256 of its module's file; what that imports is not looked at, nor is it executed."""
        file = self._file()
        if file is None:
            raise self.refused(f"{self.module} has no file of Python", "a module of Python")
        return hashlib.sha256(file.read_bytes()).hexdigest()

    def load(self) -> Callable[..., Any]:
        """The function, imported."""
        directory = str(Path(self.directory or "").absolute())
        if directory not in sys.path:
            sys.path.insert(0 if self.directory else len(sys.path), directory)
        try:
            module = importlib.import_module(self.module)
        except Exception as error:
            raise self.refused(f"cannot be imported: {type(error).__name__}: {error}") from None
        function = getattr(module, self.name, None)
        if not callable(function):
            own = [
                name
                for name, value in vars(module).items()
                if callable(value) and value.__module__ == self.module and name[0] != "_"
            ]
            rule = f"{self.module} has no function {self.name}; it has {', '.join(own)}"
            raise self.refused(rule)
        checked: Callable[..., Any] = function
        return checked

    def refused(self, rule: str, nearest: str | None = None) -> SettingError:
        """The error that says so; `nearest`: what works instead, by default `wanted`."""
        return SettingError(self.setting, self.path, rule, nearest or self.wanted)

    def _file(self) -> Path | None:
        """The text of its module; None where that is not Python's."""
        spec = self._spec()
        if spec is None:
            rule = f"no module {self.module!r} is on the import path"
            nearest = f"{self.setting}=MODULE:{self.name}, of a module that is there"
            if self.place is None:
                rule += ", nor in the working directory"
            elif self.directory is None:
                nearest = f"{self.place}=DIRECTORY, the one that it lies in"
            else:
                rule += f", nor in {self.place}={self.directory}"
            raise self.refused(rule, nearest)
        return Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None

    def _spec(self) -> ModuleSpec | None:
        """The module; of a package that holds it nothing is executed either."""
        first, *within = self.module.split(".")
        with self._on_the_path():
            # What runs as a script has no place to be found in.
            spec = None if first == "__main__" else importlib.util.find_spec(first)
        for name in within:
            if spec is None:
                return None
            spec = PathFinder.find_spec(f"{spec.name}.{name}", spec.submodule_search_locations)
        return spec

    @contextmanager
    def _on_the_path(self) -> Iterator[None]:
        before, directory = sys.path, str(Path(self.directory or "").absolute())
        sys.path = [directory, *before] if self.directory else [*before, directory]
        try:
            yield
        finally:
            sys.path = before

    def _bound(self, file: Path) -> set[str]:
        """Every name that the text binds in its module: functions and classes, and what is imported
        or assigned."""
        try:
            tree = ast.parse(file.read_bytes())
        except (OSError, SyntaxError, ValueError) as error:
            raise self.refused(
                f"{file} cannot be imported: {error}", "a module of Python"
            ) from None
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
