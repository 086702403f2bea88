"""A process of a run that measures the noise of updates, whose rollouts are the same however many
processes there are: `python -m tests.training.noise_shared PROCESSES FILE`."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from isosweep.training.noise import NoiseBooks
from tests.training.builders import spec_of, train, trainer_of

UPDATES = 3
# Of two rollouts a half is one: no half is left to chance. A process has two problems at least.
_ALIKE = ("evaluation.noise_every=1", "recipe.learning_rate=1e-3")
_SHARED = (
    "hardware.devices_per_run={}",
    "hardware.interconnect_bandwidth=1e10",
)


def measure(processes: int, file: Path) -> None:
    """Sums of every update, by the first process."""
    shared = [each.format(processes) for each in _SHARED] if processes > 1 else []
    spec = spec_of(*_ALIKE, *shared, n=2, B=16, micro=8)
    trainer = trainer_of(spec, file.parent / str(processes), noise=NoiseBooks(spec))
    assert trainer.accelerator.num_processes == processes
    seen: list[list[float]] = []
    trainer.noise_measured = seen.append
    trainer.trl_sample = lambda prompts, n: (_completions(trainer, prompts), None)
    train(trainer, UPDATES)
    if trainer.process == 0:
        file.write_text(json.dumps(seen))


def _completions(trainer: Any, prompts: list[list[int]]) -> list[list[int]]:
    """Each drawn by numbers of its own, which follow from the step, the prompt and the copy."""
    copies: dict[tuple[int, ...], int] = {}
    streams = []
    for prompt in map(tuple, prompts):
        copies[prompt] = copies.get(prompt, 0) + 1
        numbers = (trainer.steps_done, copies[prompt], *prompt)
        streams.append(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])
    with trainer.whole_policy() as policy:
        drawn: list[list[int]] = trainer._sampler.sample(policy, prompts, np.array(streams))
    return drawn


if __name__ == "__main__":
    measure(int(sys.argv[1]), Path(sys.argv[2]))
