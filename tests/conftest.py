"""What all tests share."""

import gc
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

# Before torch is imported by any test: more threads than cores slow tiny models tenfold.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import pytest
from filelock import FileLock
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from isosweep.config.axes import combinations
from isosweep.config.compose import from_hydra
from isosweep.config.refusals import config_directory
from isosweep.config.sweep import SweepConfig
from isosweep.plan import calibration
from isosweep.plan.candidates import Candidates
from isosweep.plan.cells import Plan
from isosweep.plan.enumerate import enumerate_candidates
from isosweep.plan.study import resolve
from tests.commands import forked, in_process
from tests.composing import composed_once

# A machine that others use has no time by which an example is done.
hypothesis.settings.register_profile("busy", deadline=None)
hypothesis.settings.load_profile("busy")

# A sweep small enough for a test: a second or two of training a run.
SMALL = (
    "grid.num_generations=[2,4]",
    "grid.problems_per_batch=[4]",
    "grid.seeds=[0]",
    "grid.tolerance=0.02",
    "evaluation.samples_per_problem=2",
    "task.num_eval_problems=32",
)


# What takes longest begins first, so that no worker of pytest-xdist ends long after the others.
# make test-system has the first four alone, which wait much of their time.
LONGEST = (
    "tests/slurm/test_faults_queue.py",
    "tests/slurm/test_nodes.py",
    "tests/training/test_sharded.py",
    "tests/training/test_overlap.py",
    "tests/training/test_unbroken.py",
    "tests/training/test_ranks.py",
    "tests/contract/test_interrupted.py",
    "tests/contract/test_search.py",
    "tests/training/test_diverged.py",
    "tests/contract/test_shared_runs.py",
    "tests/launchers/test_local.py",
    "tests/contract/test_own_parts.py",
    "tests/training/test_recipes.py",
    "tests/difficulty/test_difficulty.py",
    "tests/analysis/test_report.py",
    "tests/test_benchmarks.py",
    "tests/door/test_documents.py",
    "tests/tracking/test_mlflow.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules of LONGEST in its order, then all others; within a module nothing moves."""
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.nodeid.partition("::")[0], len(LONGEST)))


@pytest.fixture(autouse=True, scope="session")
def _quiet_libraries() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HF_HUB_OFFLINE", "MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
            patch.setenv(name, "true")
        yield


# Tests make many small objects beside large libraries, in which a collection finds nothing: a tenth
# of their time.
gc.set_threshold(100_000, 50, 50)


@pytest.fixture(autouse=True, scope="session")
def _packaged_groups_composed_once() -> Iterator[None]:
    with composed_once():
        yield


_CHECKOUT = Path(__file__).parents[1]


@pytest.fixture(autouse=True, scope="session")
def _runs_of_the_checkout_correct_no_times() -> Iterator[None]:
    """A user's own sweeps beside the sources change no plan of a test."""
    ratios = calibration.measured_ratios

    def of_tests(root: Path, config: SweepConfig) -> Iterator[Any]:
        return iter(()) if root.is_relative_to(_CHECKOUT) else ratios(root, config)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibration, "measured_ratios", of_tests)
        yield


@pytest.fixture(autouse=True)
def _nothing_is_left_in_the_checkout() -> Iterator[None]:
    """No test writes a sweep beside the sources, where a user's own may lie."""

    def there() -> set[Path]:
        return {*_CHECKOUT.glob("sweeps/*"), *_CHECKOUT.glob("sweeps/runs/*")}

    before = there()
    yield
    assert there() == before, f"left in the checkout: {sorted(there() - before)}"


def in_ci(cases: Iterable[Any], *kept: Any) -> list[Any]:
    """The `cases` for parametrize: those `kept` in every run, the others in make test-long.

    A case of several arguments is a tuple.
    """

    def rare(case: Any) -> Any:
        return pytest.param(*case if isinstance(case, tuple) else [case], marks=pytest.mark.long)

    return [case if case in kept else rare(case) for case in cases]


def missing(part: str, reason: str) -> NoReturn:
    """Skip a test whose `part` is missing here; fail if ISOSWEEP_REQUIRE lists the part."""
    if part in os.environ.get("ISOSWEEP_REQUIRE", "").split(","):
        pytest.fail(reason)
    pytest.skip(reason)


def make_config(*overrides: str) -> SweepConfig:
    """The validated config of `overrides`, as the command line composes it."""
    return from_hydra(_composed(overrides), overrides)


def set_of(name: str, task: str, *settings: str) -> tuple[str, ...]:
    """Overrides of an evaluation set with this choice of a task, and settings of it."""
    place = f"evaluation.sets.{name}.task"
    return (f"+task@{place}={task}", *(f"{place}.{setting}" for setting in settings))


# Hydra has one state for the whole process, and samplers compose in a thread beside the test.
_COMPOSING = threading.Lock()


@cache
def _composed(overrides: tuple[str, ...]) -> DictConfig:
    with _COMPOSING, initialize_config_dir(str(config_directory()), version_base="1.3"):
        return compose("config", overrides=list(overrides))


def shared_sweep(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """The directory that `make` fills, once in a session: all workers of pytest-xdist share it."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    directory, ready = base / f"shared-{name}", base / f"shared-{name}.ready"
    with FileLock(f"{directory}.lock"):
        if not ready.exists():
            # A second try after a failure would find the first one's files.
            directory.mkdir()
            make(directory)
            ready.touch()
    return directory


@pytest.fixture(scope="session")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an uninterrupted sweep to 1.28e10 FLOPs, which others compare with."""

    def make(cwd: Path) -> None:
        isosweep("budget=[6.4e9,1.28e10]", *SMALL, "tracking=none", cwd=cwd)

    return shared_sweep(tmp_path_factory, "straight", make)


def plan_of(config: SweepConfig) -> Plan:
    """The plan that `config` comes to."""
    return resolve(config).plan


def candidates_of(config: SweepConfig) -> tuple[Candidates, ...]:
    """All candidates of `config`, feasible or not, one entry a variant."""
    return enumerate_candidates(combinations(config))


def isosweep(
    *overrides: str, cwd: Path, check: bool = True, fresh: bool = False
) -> "subprocess.CompletedProcess[str]":
    """Run the command line in `cwd`.

    `fresh`: as users do, in an interpreter of its own. Else in a fork that has the libraries
    imported; the rest is the same.
    """
    if fresh:
        command = [sys.executable, "-m", "isosweep", *overrides]
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, check=False, timeout=600
        )
    else:
        with tempfile.TemporaryDirectory() as output:
            done = forked(overrides, cwd, Path(output) / "written", timeout_s=600)
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done


def refused(*overrides: str, cwd: Path) -> str:
    """What the command line says, in words, when it ends with status 2 and before anything runs."""
    done = in_process(overrides, cwd)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr
