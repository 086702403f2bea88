"""Python imports this at its start where PYTHONPATH has its folder: then time passes otherwise.

ISOSWEEP_TEST_STEP_S: seconds that a training step takes longer, so that a fault can hit a run of a
second in its midst. ISOSWEEP_TEST_POLL_S: seconds between two questions to Slurm, and of patience
with its answers, so that a test needs no minutes. No number of a run depends on either.
"""

import importlib.abc
import importlib.machinery
import os
import sys
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

Change = Callable[[ModuleType, float], None]


def slower_steps(module: ModuleType, seconds: float) -> None:
    """Change `isosweep.training.loop`."""
    on_step_end = module.TrainingLoop.on_step_end

    def after_a_while(*given: Any, **named: Any) -> Any:
        time.sleep(seconds)
        return on_step_end(*given, **named)

    module.TrainingLoop.on_step_end = after_a_while


def shorter_polls(module: ModuleType, seconds: float) -> None:
    """Change `isosweep.launchers.slurm`."""
    assert "_POLL_S" in vars(module)
    vars(module).update(_POLL_S=seconds)


def less_patience(module: ModuleType, seconds: float) -> None:
    """Change `isosweep.launchers.liveness`."""
    assert "_PATIENCE_S" in vars(module)
    vars(module).update(_PATIENCE_S=2 * seconds)


CHANGES: dict[str, tuple[str, Change]] = {
    "isosweep.training.loop": ("ISOSWEEP_TEST_STEP_S", slower_steps),
    "isosweep.launchers.slurm": ("ISOSWEEP_TEST_POLL_S", shorter_polls),
    "isosweep.launchers.liveness": ("ISOSWEEP_TEST_POLL_S", less_patience),
}


class Changed(importlib.abc.MetaPathFinder):
    """Finds modules as Python does, and changes those of CHANGES that a variable asks it to."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        variable, change = CHANGES.get(name, ("", None))
        if change is None or variable not in os.environ:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def changed(module: ModuleType) -> None:
            load(module)
            change(module, float(os.environ[variable]))

        spec.loader.exec_module = changed  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, Changed())
