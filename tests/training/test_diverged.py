"""Runs that diverge: a result with its reason, never a failure, and never trained on."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from isosweep.store.paths import complete_checkpoints
from isosweep.store.records import read_metrics, read_records, read_warnings
from tests.conftest import SMALL, isosweep
from tests.runs import log_lines
from tests.training.builders import state_of
from tests.training.engines import only_run

pytestmark = pytest.mark.train
# A learning rate at which the built-in model unlearns everything within ten steps.
COLLAPSING = (
    *(*SMALL, "tracking=none", "recipe.learning_rate=5e-3"),
    *("grid.num_generations=[4]", "grid.problems_per_batch=[8]"),
)
BUDGETS = "budget=[1e10,4e10]"


@pytest.fixture(scope="module")
def diverged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of one run that collapses between its budgets."""
    cwd = tmp_path_factory.mktemp("diverged")
    assert "failed" not in isosweep(BUDGETS, *COLLAPSING, cwd=cwd).stdout
    return cwd


def test_a_collapsed_run_ends_as_diverged_with_rule_and_a_last_record(diverged: Path) -> None:
    run = only_run(diverged)
    state = state_of(run)
    assert (state.status, state.diverged_by, state.number) == ("diverged", "collapse", 1)
    assert state.reason is not None
    assert state.reason.startswith(f"collapse at step {state.step}: reward 0")
    assert "collapse" in state.warnings
    (line,) = [line for line in log_lines(run.warnings) if line["rule"] == "collapse"]
    assert (line["attempt"], line["step"]) == (1, state.step)
    assert line["value"] < line["threshold"]
    last = read_records(run.records).records[-1]
    assert last.step == state.step
    # The checkpoint came after the record.
    assert (
        replace(state.compute, checkpoint_seconds=last.compute.checkpoint_seconds) == last.compute
    )
    assert 1e10 < last.compute.flops < 4e10
    (*_, step) = read_metrics(run.metrics, run.records)
    assert step["step"] == state.step
    wanted = {"reward", "reward_std", "loss", "grad_norm", "entropy", "learning_rate"}
    assert step.keys() >= wanted | {"completion_tokens", "truncated_share", "clipped_share"}
    assert max(complete_checkpoints(run.attempt_checkpoints(1))) == state.step


def test_it_is_trained_on_once_its_rule_no_longer_ends_runs_and_not_before(
    diverged: Path, tmp_path: Path
) -> None:
    cwd = shutil.copytree(diverged, tmp_path / "copy")
    (config,) = (cwd / "sweeps").glob("*/config.json")
    moved = json.loads(config.read_text()) | {"sweeps_dir": str(cwd / "sweeps")}
    config.write_text(json.dumps(moved))
    before = state_of(only_run(cwd))
    isosweep("mode=resume", f"sweep={config.parent}", cwd=cwd)
    # Neither does a larger budget train it on.
    isosweep("budget=[1e10,4e10,8e10]", *COLLAPSING, cwd=cwd)
    assert state_of(only_run(cwd)) == before
    printed = isosweep("mode=plan", BUDGETS, *COLLAPSING, cwd=cwd).stdout
    assert "runs: 1 diverged; 0% of the compute is left to train" in printed
    isosweep(BUDGETS, *COLLAPSING, "health.stop=[non_finite]", cwd=cwd)
    run, after = only_run(cwd), state_of(only_run(cwd))
    assert (after.status, after.diverged_by, after.number) == ("finished", None, 2)
    steps = [line["step"] for line in read_metrics(run.metrics, run.records)]
    assert steps == list(range(1, after.step + 1))
    # The monitor went on where it was: what it had warned of, it does not say again.
    assert [w.rule for w in read_warnings(run.warnings, run.records)].count("collapse") == 1
    assert before.step in {record.step for record in read_records(run.records).records}


def test_numbers_that_are_not_finite_end_a_run_without_a_record_or_a_retry(tmp_path: Path) -> None:
    settings = ("budget=1e10", *COLLAPSING, "recipe.learning_rate=1e12")
    said = isosweep(*settings, cwd=tmp_path).stdout
    assert "logit was not finite (health rule non_finite)" in said
    run = only_run(tmp_path)
    state = state_of(run)
    assert (state.status, state.diverged_by, state.number) == ("diverged", "non_finite", 1)
    (line,) = log_lines(run.warnings)
    assert (line["rule"], line["value"], line["threshold"]) == ("non_finite", None, None)
    # The first update has a rate: after it nothing can be sampled.
    assert state.step == 1
    assert [record.step for record in read_records(run.records).records] == [0]
    # Where no rule may end it, it fails as anything would that cannot be trained.
    never = ("health.stop=[]", "launcher.max_retries=0")
    assert isosweep(*settings, *never, cwd=tmp_path, check=False).returncode == 1
    assert state_of(run).status == "failed"
