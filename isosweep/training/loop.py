"""The loop around a trainer's steps: what is recorded, checkpointed and reported, and when it ends.

transformers' Trainer runs the steps, and calls the loop back after each.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from transformers import TrainerCallback

from isosweep.compute import Compute
from isosweep.store.attempts import OvertakenError, Status
from isosweep.store.completions import KeptCompletions
from isosweep.store.records import Evaluation, Record
from isosweep.store.warnings import HealthWarning
from isosweep.training.checkpoints import Saver, checkpoint_directory, sync_all_nodes
from isosweep.training.evaluate import Evaluator, pooled
from isosweep.training.loss import LOSS_METRIC
from isosweep.training.session import Session
from isosweep.training.trainer import PART_METRICS, SweepTrainer

# Names in TRL's log and ours. The reward is the task's score, without what a recipe adds. TRL's own
# `frac_reward_zero_std` is of the whole batch where scores are scaled by the batch, so the share of
# groups without spread is logged beside it.
METRICS = {
    "rewards/correctness/mean": "reward",
    "rewards/correctness/std": "reward_std",
    "loss": "loss",
    "grad_norm": "grad_norm",
    "entropy": "entropy",
    "kl": "kl",
    "learning_rate": "learning_rate",
    "completions/mean_length": "completion_tokens",
    "completions/clipped_ratio": "truncated_share",
    # The loss decides which of the two is logged.
    "clip_ratio/region_mean": "clipped_share",
    "cispo_clip_ratio": "clipped_share",
    "zero_variance_share": "zero_variance_share",
    "sampling/sampling_logp_difference/mean": "logp_difference",
    "sampling/sampling_logp_difference/max": "logp_difference_max",
}


def named_metrics(logs: Mapping[str, float]) -> dict[str, float]:
    """The metrics of a step under their names in records, of what TRL logs of it."""
    values = {ours: logs[trl] for trl, ours in METRICS.items() if logs.get(trl) is not None}
    return values | {n: logs[n] for n in logs if n.startswith((*PART_METRICS, LOSS_METRIC))}


class StoppedError(Exception):
    """The attempt was asked to stop before its first step: there is nothing to save."""


class TrainingLoop(TrainerCallback):  # type: ignore[misc]
    """Trains a session's run until its schedule, a health rule or a stop request ends it.

    All processes of a run have one; where they could disagree, the first decides.
    """

    def __init__(
        self,
        session: Session,
        trainer: SweepTrainer,
        evaluator: Evaluator,
        sets: Mapping[str, Evaluator],
    ) -> None:
        """`sets`: what else every record is taken of."""
        self.session, self.trainer = session, trainer
        self.evaluator, self.sets = evaluator, sets
        # Steps that have a record.
        self.recorded: set[int] = set()
        self._previous = self.spent
        self._saver = Saver(session.job.saving, session.attempt)
        # When the present step began, and when the last one was logged.
        self._began = self._logged = 0.0

    @property
    def spent(self) -> Compute:
        """Compute of the run so far, earlier attempts included."""
        return self.trainer.ledger.spent

    def run(self) -> None:
        """Train, unless the run is at its end already."""
        # From here on records of earlier attempts beyond its beginning count no more: an attempt
        # that cannot begin hides none.
        self.recorded = self.session.reporter.started(self.session.start)
        self.session.reporter.spent = self.spent
        if self.session.monitor.verdict is not None or self.session.schedule.is_over(self.spent):
            return
        self.trainer.add_callback(self)
        checkpoint = self.session.start.checkpoint
        try:
            self.trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
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
            self._saver.end(self.trainer.model, self.trainer.processing_class)

    # What transformers calls.

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Record the base model, if that is due, and report the run as running.

        Raises StoppedError where the run is not to begin.
        """
        self._leave_if_asked()
        self.trainer.ledger.took("startup", time.monotonic() - self.session.began)
        self._decide(state.global_step)
        # No decision is asked for before the first step has ended.
        self._leave_if_asked()
        self.session.reporter.state(Status.RUNNING)
        self._began = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Count the step's wall seconds; whether to save, and whether to stop."""
        self.trainer.queue.settle()
        self.trainer.ledger.took("device", time.perf_counter() - self._began)
        control.should_save, control.should_training_stop = self._decide(state.global_step)
        self._began = time.perf_counter()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Report the metrics, and end the run where a health rule does."""
        # Kept for nobody, and written into every checkpoint: metrics.jsonl has them.
        state.log_history.clear()
        step, values = state.global_step, named_metrics(logs)
        if values:
            self.session.reporter.metrics(step, values)
            ended = self._judge(step, values)
            if ended is not None and not self._amid_a_generation(step):
                self._take_record(step, self.spent)
                # Nothing can go on from numbers that are not finite.
                control.should_save = ended.rule != "non_finite"
                control.should_training_stop = True
                if control.should_save:
                    self._saver.begin()
        self._logged = time.perf_counter()

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Complete the checkpoint once every process has written."""
        checkpoint = checkpoint_directory(args, state)
        sync_all_nodes(checkpoint)
        if state.is_world_process_zero:
            progress = {
                "compute": asdict(self.spent),
                "stream": self.trainer.stream.to_json(),
                "health": self.session.monitor.to_json(),
            }
            self._saver.complete(checkpoint, progress)
        # Every step is logged, and saved right after that; neither is a part of the next.
        seconds = time.perf_counter() - self._logged
        self.trainer.ledger.took("checkpoint", seconds)
        self.session.reporter.progress()
        self._began += seconds

    # Decisions.

    def _amid_a_generation(self, step: int) -> bool:
        """Whether more updates are to come of rollouts whose compute is counted already.

        A run is read off, saved and ended between generations only.
        """
        return step % self.session.spec.recipe.updates_per_generation != 0

    def _leave_if_asked(self) -> None:
        if self.session.rank.agree(self.session.stop.before_first_step):
            raise StoppedError

    def _decide(self, step: int) -> tuple[bool, bool]:
        """Take a record if one is due; whether to save after this step, and whether to stop."""
        stop, reporter = self.session.stop, self.session.reporter
        if stop.overtaken is not None:
            raise OvertakenError(stop.overtaken)
        reporter.doing(f"step {step + 1}")
        if self._amid_a_generation(step):
            return False, False
        spent = self.spent
        reporter.step, reporter.spent = step, spent
        due = step == 0 or self.session.schedule.record_due(self._previous, spent)
        if self.session.rank.agree(due):
            self._take_record(step, spent)
        self._previous = spent
        stops = self.session.schedule.is_over(spent) or stop.reason is not None
        # The step that training starts from has a checkpoint, or is the model itself.
        saves = (stops or self._saver.due) and step > self.session.start.step
        saves, stops = self.session.rank.agree((saves, stops))
        if saves:
            reporter.check()
            self._saver.begin()
        return saves, stops

    def _judge(self, step: int, values: dict[str, float]) -> HealthWarning | None:
        """Hand the health rules a step's metrics; the warning that ends the run, if one does."""
        for warning in self.session.monitor.observe(step, values):
            self.session.reporter.warning(warning)
        return self.session.rank.agree(self.session.monitor.verdict)

    def _ended_by_its_logits(self) -> bool:
        """Whether nothing can be sampled any more, and a rule ends the run for that."""
        if self.session.rank.count > 1 or self.evaluator.can_answer(self.trainer.model):
            return False
        return self._judge(self.session.reporter.step + 1, {"logits": math.nan}) is not None

    def _take_record(self, step: int, spent: Compute) -> None:
        """Evaluate and record the policy, unless that was done or nothing can be sampled of it."""
        if self.session.rank.agree(step in self.recorded):
            return
        began = time.monotonic()
        self.session.reporter.doing(f"evaluation at step {step}")
        with self.trainer.whole_policy() as policy:
            if not self.session.rank.agree(self.evaluator.can_answer(policy)):
                return

            def evaluated(by: Evaluator) -> Evaluation:
                return by(policy) if step else by.before_training(policy)

            sets = {name: evaluated(own) for name, own in self.sets.items()}
            if parts := self.session.spec.task.parts:
                result = pooled([sets[name] for name in parts])
            else:
                result = evaluated(self.evaluator)
        # As the mixture names the problems of its parts.
        heldout = self.evaluator.kept or tuple(
            replace(each, problem_id=f"{name}/{each.problem_id}")
            for name in parts
            for each in self.sets[name].kept
        )
        if heldout:
            training = self.trainer.latest_rollouts()
            self.session.reporter.completions(
                KeptCompletions(step=step, heldout=heldout, training=training)
            )
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
