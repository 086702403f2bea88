"""`import isosweep` brings nothing, and each thing that it offers brings what it needs alone."""

import subprocess
import sys
from pathlib import Path

import pytest

import isosweep

# What takes long to import, and what a notebook may lack.
HEAVY = ("pandas", "numpy", "pydantic", "hydra", "scipy", "matplotlib", "torch", "optuna")


# One after another in one interpreter, and what of `HEAVY` each may add.
STEPS = {
    "dir(isosweep), isosweep.__version__": (),
    "isosweep.IsosweepError": (),
    "isosweep.open('few_problems', 'sweeps/studies')": ("numpy", "pydantic"),
    "isosweep.make_plan(budget=2e10).price": ("hydra",),
    "isosweep.sweeps('sweeps/studies')": ("pandas",),
}


def test_what_is_asked_for_brings_what_it_needs_alone(studies: Path) -> None:
    lines = ["import sys; before = set(sys.modules)", "import isosweep"]
    for code in STEPS:
        lines += [code, "print(*(set(sys.modules) - before))"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "\n".join(lines)],
        cwd=studies,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [set(line.split()) for line in done.stdout.splitlines()]
    alone = {name for name in found[0] if name.partition(".")[0] == "isosweep"}
    assert alone == {"isosweep", "isosweep.version"}
    assert {name.partition(".")[0] for name in found[0]} - {"isosweep"} <= sys.stdlib_module_names
    allowed: set[str] = set()
    for (code, more), brought in zip(STEPS.items(), found, strict=True):
        allowed.update(more)
        assert brought.intersection(HEAVY) <= allowed, code


def test_a_name_that_is_not_offered_is_an_attribute_error() -> None:
    assert {"compare", "open"} <= {*dir(isosweep)}
    with pytest.raises(AttributeError, match="'isosweep' has no attribute 'opne'"):
        getattr(isosweep, "opne")  # noqa: B009
