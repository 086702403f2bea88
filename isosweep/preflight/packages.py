"""Packages that this installation lacks."""

from collections.abc import Mapping
from importlib.util import find_spec

from isosweep.errors import PreflightError
from isosweep.models.weights import Missing

# A planning install (`pip install isosweep`) has none of these.
ANALYSIS = ("scipy", "pandas", "matplotlib", "threadpoolctl")


def install(extra: str) -> str:
    """The command that installs isosweep with one of its extras."""
    return f"pip install 'isosweep[{extra}]'"


def install_of(package: str) -> str:
    """The command that installs a package which planning does without."""
    return install("analysis" if package in ANALYSIS else "train")


def missing_packages(packages: Mapping[str, str]) -> Missing:
    """Those of `packages` that are not installed, each with what to do, which the mapping has."""
    return [(f"the package {p}", do) for p, do in packages.items() if find_spec(p) is None]


def require_packages(*names: str) -> None:
    """Raise PreflightError where this installation lacks one of these packages."""
    if missing := missing_packages({name: install_of(name) for name in names}):
        raise PreflightError(missing)
