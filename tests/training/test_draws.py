"""Rollouts that wait are drawn by their places, however many processes sample them."""

from pathlib import Path
from typing import Any

import pytest

from tests.training.builders import listen, spec_of, train, trainer_of
from tests.training.test_ranks import trained_by_two

pytestmark = pytest.mark.train
N, B = 4, 8
# Of which two and two make an engine.
FOUR = ("hardware.devices_per_run=4", "hardware.interconnect_bandwidth=1e10")
LAG = "recipe.rollout_lag=1"
WAYS = {
    "plain": (),
    "shared": ("generation.prefix_sharing=true",),
    "adapters": ("recipe.lora_rank=4",),
    "interrupted": ("recipe.interruption='9'", "recipe.interruption_tokens=2"),
}


def lagging(directory: Path, *overrides: str) -> Any:
    more = ("recipe.learning_rate_rule=constant", *overrides)
    return trainer_of(spec_of(LAG, *more, n=N, B=B, micro=8), directory)


def sampled(trainer: Any, processes: int, calls: int = 1) -> list[list[int]]:
    """The rollouts of the last of so many calls, of as many processes in turn."""
    from isosweep.training.draws import Draws

    problems = [number for number in range(B) for _ in range(N)]
    count = len(problems) // processes
    found: list[list[int]] = []
    for process in range(processes):
        trainer.accelerator.state.process_index = process
        trainer.draws = Draws(trainer._spec.seed, lambda: trainer.steps_done)
        own = problems[process * count : (process + 1) * count]
        for _ in range(calls):
            trainer.draws.begin(trainer._places(count))
            made, _ = trainer.sample([list(trainer._questions[i].tokens) for i in own], N)
        found += made
    trainer.accelerator.state.process_index = 0
    return found


@pytest.mark.parametrize("way", WAYS)
def test_any_number_of_processes_samples_the_same_rollouts(way: str, tmp_path: Path) -> None:
    import torch

    trainer = lagging(tmp_path, *WAYS[way])
    state = torch.random.get_rng_state()
    alone = sampled(trainer, 1)
    assert sampled(trainer, 2) == sampled(trainer, 4) == alone
    # Rollouts of one problem differ, and so do generations: of other steps, and of other calls.
    assert len(set(map(tuple, alone))) > B
    again = sampled(trainer, 1, calls=2)
    trainer.be_at(1)
    assert alone != again != sampled(trainer, 1) != alone
    # What training draws next is what it would have drawn.
    assert torch.equal(torch.random.get_rng_state(), state)


def test_processes_of_one_engine_sample_at_the_places_of_all_of_them(tmp_path: Path) -> None:
    trainer = lagging(tmp_path)
    trainer._spec = spec_of("generation=vllm", "generation.tensor_parallel=2", *FOUR)
    found = []
    for process in range(4):
        trainer.accelerator.state.process_index = process
        found.append(trainer._places(8))
    trainer.accelerator.state.process_index = 0
    assert found == [range(16), range(16), range(16, 32), range(16, 32)]


def test_two_ranks_sample_what_one_process_does(tmp_path: Path) -> None:
    steps = 3
    kinds = ("", "recipe.zero_variance=resample")
    both = trained_by_two(tmp_path, steps, *kinds, more=[LAG])
    for kind, (first, second) in zip(kinds, both, strict=True):
        trainer = lagging(tmp_path / "one", *filter(None, [kind]))
        heard = listen(trainer)
        train(trainer, steps)
        together = [a + b for a, b in zip(first["ids"], second["ids"], strict=True)]
        # Updates differ by rounding alone, which moves no token in so few.
        assert together == [step["ids"] for step in heard]
        assert len(together) >= steps
