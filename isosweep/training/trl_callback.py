"""What TRL's trainer says of a step, and what it is told to do after it."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from isosweep.training.checkpoints import checkpoint_directory, sync_all_nodes

if TYPE_CHECKING:
    from isosweep.training.loop import TrainingLoop

# Names in the trainer's log and ours. The reward is the task's score, without what a recipe adds.
# TRL's own `frac_reward_zero_std` is of the whole batch where scores are scaled by the batch, so
# the share of groups without spread is logged beside it.
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

# Beginnings of metrics of a part of a mixture, whose name follows, ours from the start: its share
# of the rollouts, and their mean score.
PART_METRICS = ("share_of_", "reward_of_")

# Of a metric of a loss of one's own, in the same way.
LOSS_METRIC = "loss_"


class StepCallback(TrainerCallback):  # type: ignore[misc]
    """Asks the loop after every step, and measures the step.

    `settle` waits for what a step has to have besides its update.
    """

    def __init__(self, loop: "TrainingLoop", settle: Callable[[], None]) -> None:
        self._loop, self._settle = loop, settle
        self._began = self._logged = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Let the loop begin, and start the first step's clock."""
        self._loop.begin(state.global_step)
        self._began = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Do as the loop decides of the step."""
        self._settle()
        seconds = time.perf_counter() - self._began
        control.should_save, control.should_training_stop = self._loop.step_ended(
            state.global_step, seconds
        )
        self._began = time.perf_counter()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Pass on the metrics under their names in records; do as the loop decides."""
        # Kept for nobody, and written into every checkpoint: metrics.jsonl has them.
        state.log_history.clear()
        values = {ours: logs[trl] for trl, ours in METRICS.items() if logs.get(trl) is not None}
        named = (*PART_METRICS, LOSS_METRIC)
        values |= {name: logs[name] for name in logs if name.startswith(named)}
        decision = self._loop.metrics_logged(state.global_step, values) if values else None
        if decision is not None:
            control.should_save, control.should_training_stop = decision
        self._logged = time.perf_counter()

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Let the loop complete the checkpoint once every process has written."""
        checkpoint = checkpoint_directory(args, state)
        sync_all_nodes(checkpoint)
        if state.is_world_process_zero:
            self._loop.complete(checkpoint)
        # Every step is logged, and saved right after that; neither is a part of the next.
        seconds = time.perf_counter() - self._logged
        self._loop.saved(seconds)
        self._began += seconds
