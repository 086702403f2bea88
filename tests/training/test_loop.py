"""What the loop decides after a step, without a trainer: real policy, evaluator, books, files."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from isosweep.config.checkpoint import CheckpointConfig
from isosweep.models.weights import weights
from isosweep.plan.spec import RunSpec
from isosweep.store.checkpoints import fault
from isosweep.store.paths import CHECKPOINT_PROGRESS, RunPaths
from isosweep.store.records import read_records, read_warnings
from isosweep.store.state import claim_attempt, read_state
from isosweep.training.ledger import Ledger
from isosweep.training.progress import Progress, ResumePoint
from isosweep.training.protocols import Decision, Policy
from isosweep.training.ranks import Rank
from isosweep.training.stopping import StopRequest
from isosweep.training.stream import ProblemStream
from isosweep.training.worker import Session, TrainRun
from tests.conftest import make_config
from tests.runs import log_lines
from tests.training.builders import spec_of

if TYPE_CHECKING:
    from isosweep.training.loop import TrainingLoop

pytestmark = pytest.mark.train
ROLLOUTS = 16
SAVING = CheckpointConfig(share=0.5, keep="all")


def spec(*overrides: str) -> RunSpec:
    small = ("task.num_eval_problems=4", "evaluation.samples_per_problem=1")
    return spec_of("evaluation.records_per_decade=1", *small, *overrides)


class Still:
    """A learner that never learns."""

    def __init__(self, model: Policy) -> None:
        self.model = model

    def follow(self, loop: Any) -> None:
        self.loop = loop

    @contextmanager
    def whole_policy(self) -> Iterator[Policy]:
        yield self.model

    def write_whole(self, checkpoint: Path) -> None:
        raise AssertionError("nothing was saved")

    def train(self, resume_from_checkpoint: str | None = None) -> None:
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")


def loop_of(root: Path, *overrides: str, start: int = 0, interval_s: float = 1e9) -> "TrainingLoop":
    """Of a run whose budgets are reached after 2 and 4 generations."""
    from isosweep.training.evaluate import Evaluator
    from isosweep.training.grpo import load_policy
    from isosweep.training.loop import TrainingLoop

    run = spec(*overrides)
    saving = CheckpointConfig(share=1.0, min_interval_s=interval_s, max_interval_s=1e9)
    milestones = (2.0 * ROLLOUTS, 4.0 * ROLLOUTS)
    session = Session(
        job=TrainRun(str(root), milestones, "rollouts", make_config().health, saving),
        attempt=claim_attempt(RunPaths(root)),
        spec=run,
        start=ResumePoint(start, None, None),
        rank=Rank(),
        stop=StopRequest(),
        began=time.monotonic() - 5,
    )
    recorded = session.reporter.started(session.start)
    progress = Progress(Ledger(run), ProblemStream(64, 0), session.monitor)
    model, tokenizer = load_policy(run, str(weights(run.model)))
    learner: Any = Still(model)
    return TrainingLoop(session, progress, learner, Evaluator(run, tokenizer), recorded)


def generate(loop: "TrainingLoop") -> None:
    """Book one generation."""
    rollouts = [8] * ROLLOUTS, [4] * ROLLOUTS
    loop.progress.ledger.sampled(*rollouts)
    loop.progress.ledger.trained(*rollouts)


def recorded_steps(loop: "TrainingLoop") -> list[int]:
    return [record.step for record in read_records(loop.session.attempt.run.records).records]


def test_a_run_is_recorded_at_its_milestones_and_saved_at_its_end(tmp_path: Path) -> None:
    loop = loop_of(tmp_path)
    loop.begin(0)
    decisions = []
    for step in range(1, 5):
        generate(loop)
        decisions.append(loop.step_ended(step, 0.5))
    assert decisions == [Decision()] * 3 + [Decision(save=True, stop=True)]
    # Step 1 lies beyond the first grid points, of which it is the record.
    assert recorded_steps(loop) == [0, 1, 2, 4]
    assert loop.spent.device_seconds == 2.0
    state = read_state(loop.session.attempt.run)
    assert state is not None
    assert (state.status, state.step) == ("running", 0)
    checkpoint = tmp_path / "checkpoints" / "1" / "checkpoint-4"
    checkpoint.mkdir(parents=True)
    loop.saved(0.25)
    (checkpoint / "model").touch()
    loop.complete(checkpoint)
    # Nothing is left to train.
    loop.run()
    loop.tidy()
    assert fault(checkpoint) is None
    assert (checkpoint / "model").exists()
    progress = json.loads((checkpoint / CHECKPOINT_PROGRESS).read_text())
    assert (loop.spent.device_seconds, loop.spent.checkpoint_seconds) == (2.0, 0.25)
    # What came before the first evaluation is apart, and in every record.
    records = read_records(loop.session.attempt.run.records).records
    assert {record.compute.startup_seconds for record in records} == {loop.spent.startup_seconds}
    assert 5 <= loop.spent.startup_seconds < 60
    assert progress["compute"]["rollouts"] == 4 * ROLLOUTS


def test_nothing_is_decided_amid_a_generation(tmp_path: Path) -> None:
    loop = loop_of(tmp_path, "recipe.num_iterations=2", interval_s=0.0)
    loop.begin(0)
    for _ in range(4):
        generate(loop)
    loop.session.stop.reason = "stopped by SIGTERM"
    assert loop.step_ended(1, 0.1) == Decision()
    assert recorded_steps(loop) == [0]
    assert loop.step_ended(2, 0.1) == Decision(save=True, stop=True)
    assert recorded_steps(loop) == [0, 2]


def test_checkpoints_keep_their_interval_and_none_repeats_the_first(tmp_path: Path) -> None:
    always = loop_of(tmp_path / "always", start=3, interval_s=0.0)
    always.begin(3)
    assert always.step_ended(3, 0.0) == Decision()
    assert always.step_ended(4, 0.0) == Decision(save=True)
    never = loop_of(tmp_path / "never", start=3)
    assert never.step_ended(4, 0.0) == Decision()


@pytest.mark.parametrize(
    ("values", "decision"),
    [
        ({"loss": 0.1, "grad_norm": 1.0}, None),
        ({"loss": float("nan")}, Decision(stop=True)),
    ],
)
def test_metrics_that_break_a_rule_end_the_run(
    values: dict[str, float], decision: Decision | None, tmp_path: Path
) -> None:
    loop = loop_of(tmp_path)
    loop.begin(0)
    assert loop.metrics_logged(1, values) == decision
    run = loop.session.attempt.run
    (line,) = log_lines(run.metrics)
    assert (line["attempt"], line["step"]) == (1, 1)
    assert (line["loss"] is None) == (decision is not None)
    rules = [warning.rule for warning in read_warnings(run.warnings, run.records)]
    assert rules == (["non_finite"] if decision else [])
    assert loop.session.outcome(loop.spent)[0] == ("diverged" if decision else "finished")


def test_a_policy_that_cannot_be_sampled_from_diverges_and_another_error_is_one(
    tmp_path: Path,
) -> None:
    import torch

    loop = loop_of(tmp_path)
    with pytest.raises(RuntimeError, match="probability tensor"):
        loop.run()
    policy: Any = loop.learner.model
    with torch.no_grad():
        next(policy.parameters()).fill_(float("nan"))
    loop.run()
    assert loop.session.outcome(loop.spent) == ("diverged", "non_finite at step 1: logits is nan")
    # What has diverged is not trained again.
    loop.learner.train = None  # type: ignore[assignment, method-assign]
    loop.run()
