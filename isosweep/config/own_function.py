"""Functions of the user's own, by import path: looked for without importing them, and imported."""

import hashlib
import importlib
import importlib.util
import symtable
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from isosweep.errors import SettingError


def import_path(text: str) -> str:
    """`text`, where it reads package.module:function. Raises ValueError otherwise."""
    module, _, function = text.partition(":")
    if module.endswith(".py") or not all(
        part.isidentifier() for part in [*module.split("."), function]
    ):
        raise ValueError("must read package.module:function, without the .py of a file")
    return text


@dataclass(frozen=True, kw_only=True)
class OwnFunction:
    """A function of the user's own; what is wrong with it is an error of the setting naming it.

    `path`: package.module:function. `directory`: what comes first on the import path for it, from
    the setting `place`; without one the working directory comes last there, so that what lies in it
    is in the place of no library.
    """

    setting: str
    path: str
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
        try:
            text = file.read_text(encoding="utf-8")
            symbols = symtable.symtable(text, str(file), "exec").get_symbols()
        except (OSError, SyntaxError, ValueError) as error:
            raise self.refused(f"{file} cannot be imported: {error}") from None
        bound = {each.get_name() for each in symbols if each.is_assigned() or each.is_imported()}
        if not bound & {self.name, "__getattr__"} and "import *" not in text:
            own = sorted(each for each in bound if not each.startswith("_"))
            raise self.refused(f"{file} has no {self.name}; it has {', '.join(own) or 'no name'}")

    def source_sha256(self) -> str:
        """Sha256 of its module's file; what that imports is not looked at, nor is it executed."""
        file = self._file()
        if file is None:
            raise self.refused(f"{self.module} has no file of Python")
        return hashlib.sha256(file.read_bytes()).hexdigest()

    def load(self) -> Callable[..., Any]:
        """The function, imported."""
        directory = str(Path(self.directory or "").absolute())
        if directory not in sys.path:
            sys.path.insert(0 if self.directory else len(sys.path), directory)
        try:
            module = importlib.import_module(self.module)
        except (Exception, SystemExit) as error:
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

    def refused(self, rule: str, nearest: str = "") -> SettingError:
        """The error that says so."""
        return SettingError(self.setting, self.path, rule, nearest)

    def _file(self) -> Path | None:
        """The text of its module; None where that is not Python's."""
        spec = self._spec()
        if spec is None:
            rule = f"no module {self.module!r} is on the import path"
            if self.place is None:
                rule += ", nor in the working directory"
            else:
                rule += f", nor in {self.place}={self.directory or 'null'}"
            raise self.refused(rule)
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
