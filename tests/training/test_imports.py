"""What a worker imports: the training stack, and nothing of the command line."""

import subprocess
import sys

# All that a run imports while it goes, for every task; vLLM has an environment of its own.
CODE = """
import importlib, pkgutil, sys
import isosweep.models, isosweep.plan.spec, isosweep.tasks, isosweep.training
for package in (isosweep.training, isosweep.tasks, isosweep.models):
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
import accelerate, datasets, math_verify, peft, reasoning_gym, submitit, torch, trl
above = ("isosweep.modes", "isosweep.preflight", "isosweep.launchers", "isosweep.analysis")
print(*sorted({"hydra", "omegaconf", *above} & set(sys.modules)))
"""


def test_a_worker_imports_neither_hydra_nor_omegaconf() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    # transformers has a line of its own where WANDB_MODE=offline.
    assert done.stdout.splitlines()[-1].split() == []
