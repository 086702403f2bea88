"""Lets accelerate shard a model over processes of a CPU, for the tests whose ranks import this.

accelerate 1.15 passes over FSDP on a CPU and trains by DDP without a word; torch's
`fully_shard` works there, by gloo. A line of accelerate/state.py is changed as it is imported: all
else in a rank is what it is on GPUs.
"""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any

_LINES = {
    # Kinds of devices that FSDP is let in for.
    "DistributedType.MULTI_NEURON,\n            ]:": (
        "DistributedType.MULTI_NEURON, DistributedType.MULTI_CPU]:"
    ),
}


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> Any:
        source = self.get_source(fullname) or ""
        for line, other in _LINES.items():
            if source.count(line) != 1:
                raise ImportError(f"{self.path}: no longer has the line {line!r}")
            source = source.replace(line, other)
        return compile(source, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != "accelerate.state":
            return None
        found = PathFinder.find_spec(fullname, path, target)
        if found is not None and found.origin is not None:
            found.loader = _Loader(fullname, found.origin)
        return found


sys.meta_path.insert(0, _Finder())
