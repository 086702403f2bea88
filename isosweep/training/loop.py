"""The loop around a trainer's steps: what is recorded, checkpointed and reported, and when it ends.

TRL's trainer runs the steps; after each it asks the loop, which answers with a Decision.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from isosweep.compute import Compute
from isosweep.store.attempts import OvertakenError, Status
from isosweep.store.records import Evaluation, Record
from isosweep.store.warnings import HealthWarning
from isosweep.training.base_evaluation import read_evaluation, store_evaluation
from isosweep.training.checkpoints import Progress, Saver
from isosweep.training.evaluate import Evaluator, pooled
from isosweep.training.protocols import Decision, Policy
from isosweep.training.trainer import CountedGRPOTrainer
from isosweep.training.worker import Session


class StoppedError(Exception):
    """The attempt was asked to stop before its first step: there is nothing to save."""


@dataclass
class TrainingLoop:
    """Trains a session's run until its schedule, a health rule or a stop request ends it.

    Its `learner` asks it after each step. All processes of a run have one; where they could
    disagree, the first decides. `recorded`: steps that have a record. `sets`: what else every
    record is taken of.
    """

    session: Session
    progress: Progress
    learner: CountedGRPOTrainer
    evaluator: Evaluator
    recorded: set[int]
    sets: Mapping[str, Evaluator] = field(default_factory=dict)
    _previous: Compute = field(init=False)
    # When training stood still last, and what for.
    _still: tuple[Literal["startup", "checkpoint"], float] = field(init=False)
    _saver: Saver = field(init=False)

    def __post_init__(self) -> None:
        self._previous = self.spent
        session = self.session
        self._still = "startup", session.began
        self._saver = Saver(session.job.saving, session.attempt)

    @property
    def spent(self) -> Compute:
        """Compute of the run so far, earlier attempts included."""
        return self.progress.ledger.spent

    def run(self) -> None:
        """Train, unless the run is at its end already."""
        self.session.reporter.spent = self.spent
        if self.progress.monitor.verdict is None and not self.session.schedule.is_over(self.spent):
            self._train()

    def _train(self) -> None:
        self.learner.follow(self)
        checkpoint = self.session.start.checkpoint
        try:
            self.learner.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        except StoppedError:
            pass
        except RuntimeError:
            # What torch raises when it is to sample from logits that are not finite, which can be
            # so before any loss is.
            if not self._ended_by_its_logits():
                raise

    def tidy(self) -> None:
        """Leave of the checkpoints what is to be kept, now that the run is over."""
        if self.session.rank.leads:
            self._saver.end(self.learner.write_whole)

    # What the trainer asks.

    def begin(self, step: int) -> None:
        """Record the base model, if that is due, and report the run as running.

        Raises StoppedError where the run is not to begin.
        """
        self._leave_if_asked()
        kind, since = self._still
        self.progress.ledger.took(kind, time.monotonic() - since)
        self._decide(step)
        # The trainer asks for no decision before its first step has ended.
        self._leave_if_asked()
        self.session.reporter.state(Status.RUNNING)

    def step_ended(self, step: int, seconds: float) -> Decision:
        """Count the step's wall seconds; whether to save, and whether to stop."""
        self.progress.ledger.took("device", seconds)
        return self._decide(step)

    def metrics_logged(self, step: int, values: dict[str, float]) -> Decision | None:
        """Report the metrics and judge them; a decision only where they end the run."""
        self.session.reporter.metrics(step, values)
        ended = self._judge(step, values)
        if ended is None or self._amid_a_generation(step):
            return None
        self._take_record(step, self.spent)
        if ended.rule == "non_finite":
            # Nothing can go on from numbers that are not finite.
            return Decision(stop=True)
        self._saver.begin()
        return Decision(save=True, stop=True)

    def complete(self, checkpoint: Path) -> None:
        """Add the progress to a checkpoint, and complete it."""
        self._saver.complete(checkpoint, self.progress.to_json())

    def saved(self, seconds: float) -> None:
        """Count the wall seconds that training stood still for a checkpoint."""
        self.progress.ledger.took("checkpoint", seconds)
        self.session.reporter.progress()

    # Decisions.

    def _amid_a_generation(self, step: int) -> bool:
        """Whether more updates are to come of rollouts whose compute is counted already.

        A run is read off, saved and ended between generations only.
        """
        return step % self.session.spec.recipe.updates_per_generation != 0

    def _leave_if_asked(self) -> None:
        if self.session.rank.agree(self.session.stop.at_once):
            raise StoppedError

    def _decide(self, step: int) -> Decision:
        stop, reporter = self.session.stop, self.session.reporter
        if stop.overtaken is not None:
            raise OvertakenError(stop.overtaken)
        reporter.doing(f"step {step + 1}")
        if self._amid_a_generation(step):
            return Decision()
        spent = self.spent
        reporter.step, reporter.spent = step, spent
        due = step == 0 or self.session.schedule.record_due(self._previous, spent)
        if self.session.rank.agree(due):
            self._take_record(step, spent)
        self._previous = spent
        decision = self.session.rank.agree(self._save_or_stop(step, spent))
        if decision.save:
            # Where the run's directory is away, it would be made anew for the checkpoint.
            reporter.wait()
            reporter.check()
            self._saver.begin()
        return decision

    def _save_or_stop(self, step: int, spent: Compute) -> Decision:
        stop = self.session.schedule.is_over(spent) or self.session.stop.reason is not None
        due = stop or self._saver.due
        # The step that training starts from has a checkpoint, or is the model itself.
        return Decision(save=due and step > self.session.start.step, stop=stop)

    def _judge(self, step: int, values: dict[str, float]) -> HealthWarning | None:
        """Hand the health rules a step's metrics; the warning that ends the run, if one does."""
        for warning in self.progress.monitor.observe(step, values):
            self.session.reporter.warning(warning)
        return self.session.rank.agree(self.progress.monitor.verdict)

    def _ended_by_its_logits(self) -> bool:
        """Whether nothing can be sampled any more, and a rule ends the run for that."""
        if self.session.rank.count > 1 or self.evaluator.can_answer(self.learner.model):
            return False
        return self._judge(self.session.reporter.step + 1, {"logits": math.nan}) is not None

    def _evaluated(self, step: int, policy: Policy, evaluator: Evaluator) -> Evaluation:
        """The policy's evaluation; before training that of another run, if one has taken it."""
        shared = evaluator.base if step == 0 and self.session.rank.leads else None
        stored = self.session.rank.agree(None if shared is None else read_evaluation(shared))
        if stored is not None:
            return stored
        taken = evaluator(policy)
        if shared is not None:
            store_evaluation(shared, taken)
        return taken

    def _take_record(self, step: int, spent: Compute) -> None:
        """Evaluate and record the policy, unless that was done or nothing can be sampled of it."""
        if self.session.rank.agree(step in self.recorded):
            return
        began = time.monotonic()
        self.session.reporter.doing(f"evaluation at step {step}")
        with self.learner.whole_policy() as policy:
            if not self.session.rank.agree(self.evaluator.can_answer(policy)):
                return
            sets = {name: self._evaluated(step, policy, own) for name, own in self.sets.items()}
            if parts := self.session.spec.task.parts:
                result = pooled([sets[name] for name in parts])
            else:
                result = self._evaluated(step, policy, self.evaluator)
        self.session.reporter.record(
            Record(
                **vars(result),
                step=step,
                compute=spent,
                unix_time=time.time(),
                seconds=time.monotonic() - began,
                sets=sets,
            )
        )
        self.recorded.add(step)
        self.session.reporter.doing(f"step {step + 1}")
