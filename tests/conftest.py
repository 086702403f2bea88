"""What all tests share."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

# Before torch is imported by any test: more threads than cores slow tiny models tenfold.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hydra import compose, initialize_config_dir

from isosweep.config.axes import combinations
from isosweep.config.hydra import config_directory, from_hydra
from isosweep.config.sweep import SweepConfig
from isosweep.plan.candidates import Candidates
from isosweep.plan.cells import Plan
from isosweep.plan.enumerate import enumerate_candidates
from isosweep.plan.study import resolve

# A sweep small enough for a test: a second or two of training a run.
SMALL = (
    "grid.num_generations=[2,4]",
    "grid.problems_per_batch=[4]",
    "grid.seeds=[0]",
    "grid.tolerance=0.02",
    "evaluation.samples_per_problem=2",
    "task.num_eval_problems=32",
)


@pytest.fixture(autouse=True, scope="session")
def _quiet_libraries() -> Iterator[None]:
    quiet = {"HF_HUB_OFFLINE": "1", "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    before = {name: os.environ.get(name) for name in quiet}
    os.environ.update(quiet)
    yield
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


def missing(part: str, reason: str) -> NoReturn:
    """Skip a test whose `part` is missing here; fail if ISOSWEEP_REQUIRE lists the part."""
    if part in os.environ.get("ISOSWEEP_REQUIRE", "").split(","):
        pytest.fail(reason)
    pytest.skip(reason)


def make_config(*overrides: str) -> SweepConfig:
    """The validated config of `overrides`, as the command line composes it."""
    with initialize_config_dir(str(config_directory()), version_base="1.3"):
        return from_hydra(compose("config", overrides=list(overrides)))


def plan_of(config: SweepConfig) -> Plan:
    """The plan that `config` comes to."""
    return resolve(config).plan


def candidates_of(config: SweepConfig) -> tuple[Candidates, ...]:
    """All candidates of `config`, feasible or not, one entry a variant."""
    return enumerate_candidates(combinations(config))


def isosweep(
    *overrides: str, cwd: Path, check: bool = True, **options: Any
) -> "subprocess.CompletedProcess[str]":
    """Run the command line in `cwd`."""
    command = [sys.executable, "-m", "isosweep", *overrides]
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=600, **options
    )
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done
