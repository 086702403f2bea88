"""A run of two processes (gloo, CPU): one book, one policy, one who decides."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from isosweep.files import write_json
from isosweep.machine import process_alive
from isosweep.training.ranks import Group, Ranks
from tests.runs import wait_for
from tests.training.builders import listen, spec_of, train, trainer_of

pytestmark = pytest.mark.train
TWO = ("hardware.devices_per_run=2", "hardware.interconnect_bandwidth=1e10")


def test_a_process_that_fails_ends_the_others() -> None:
    code = "import os, sys, time; sys.exit(3) if os.environ['RANK'] == '1' else time.sleep(600)"
    statuses = Ranks(Group.alone(2), ["-c", code]).run(lambda: None)
    assert statuses == [-signal.SIGKILL, 3]


def test_the_first_process_is_asked_to_stop() -> None:
    code = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGUSR2, lambda *_: sys.exit(0))\n"
        "time.sleep(600 if os.environ['RANK'] == '0' else 3)"
    )
    asked = iter([None] * 10)
    ranks = Ranks(Group.alone(2), ["-c", code])
    assert ranks.run(lambda: next(asked, signal.SIGUSR2)) == [0, 0]


STEPS = 6
OWN_LOSS = "recipe.loss_type=tests.training.own_losses:dapo"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """What each of two processes reports of STEPS steps with TRL's loss, and with one's own."""
    return trained_by_two(tmp_path_factory.mktemp("ranks"), STEPS, "", OWN_LOSS)


@pytest.fixture(scope="module")
def ranks(both: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return both[0]


def trained_by_two(out: Path, steps: int, *kinds: str) -> list[list[dict[str, Any]]]:
    """What each of two processes reports of runs with n = 4, B = 8, one with the settings of each
    of `kinds`."""
    specs = []
    for number, kind in enumerate(kinds):
        own = (*TWO, "recipe.learning_rate_rule=constant", *kind.split())
        specs.append(out / f"spec-{number}.json")
        write_json(specs[-1], spec_of(*own, n=4, B=8, micro=4).to_json())
    words = ["-m", "tests.training.two_ranks", str(out), str(steps), *map(str, specs)]
    assert Ranks(Group.alone(2), words).run(lambda: None) == [0, 0]
    found = [json.loads((out / f"{rank}.json").read_text()) for rank in range(2)]
    return [list(pair) for pair in zip(*found, strict=True)]


def test_counts_are_sums_over_processes(ranks: list[dict[str, Any]]) -> None:
    sums = [sum(parts) for parts in zip(*(rank["sampled"] for rank in ranks), strict=True)]
    assert ranks[0]["spent"] == ranks[1]["spent"] == sums
    assert sums[0] == STEPS * 4 * 8
    assert ranks[0]["flops"] == ranks[1]["flops"]
    assert ranks[0]["hardware_flops"] == ranks[1]["hardware_flops"] > ranks[0]["flops"]


def test_each_process_orders_its_own_rollouts(ranks: list[dict[str, Any]]) -> None:
    # Beside TRL's own gradient of the update, of answers of many lengths.
    assert all(0 < rank["apart"] < 1e-6 for rank in ranks)


def test_each_process_samples_its_share_of_the_same_batch(ranks: list[dict[str, Any]]) -> None:
    for first, second in zip(ranks[0]["problems"], ranks[1]["problems"], strict=True):
        batch = [*first, *second]
        assert batch == [problem for problem in batch[::4] for _ in range(4)]
        assert len(set(batch)) == 8


def test_two_processes_train_one_policy(both: list[list[dict[str, Any]]]) -> None:
    for first, second in both:
        assert first["weights"] == second["weights"]
        assert first["rewards"] == second["rewards"]
        assert len(first["rewards"]) == STEPS
    # A loss of one's own is of the rollouts of both.
    for theirs, ours in zip(*both, strict=True):
        assert ours["losses"] == pytest.approx(theirs["losses"], rel=1e-4, abs=1e-6)


def lagging(directory: Path, *overrides: str) -> Any:
    more = ("recipe.learning_rate_rule=constant", *overrides)
    return trainer_of(spec_of(*more, n=4, B=8, micro=8), directory)


# Rollouts that wait are drawn by their places, however many processes sample them.
LAG = "recipe.rollout_lag=1"
WAYS = (
    f"{LAG} recipe.zero_variance=resample",
    f"{LAG} recipe.lora_rank=4",
    f"{LAG} recipe.interruption='9' recipe.interruption_tokens=2 generation.prefix_sharing=true",
)


def test_two_processes_sample_the_rollouts_that_wait_as_one_does(tmp_path: Path) -> None:
    import torch

    for way, (first, second) in zip(WAYS, trained_by_two(tmp_path, 3, *WAYS), strict=True):
        trainer = lagging(tmp_path / "one", *way.split())
        heard = listen(trainer)
        train(trainer, 3)
        together = [a + b for a, b in zip(first["ids"], second["ids"], strict=True)]
        # Updates differ by rounding alone, which moves no token in so few.
        assert together == [step["ids"] for step in heard]
        assert len(together) >= 3
        state = torch.random.get_rng_state()
        trainer.fresh_batch(32)
        # What training draws next is what it would have drawn.
        assert torch.equal(torch.random.get_rng_state(), state)


def test_processes_of_one_engine_sample_at_the_places_of_all_of_them(tmp_path: Path) -> None:
    trainer = lagging(tmp_path, LAG)
    four = ("hardware.devices_per_run=4", "hardware.interconnect_bandwidth=1e10")
    trainer.spec = spec_of("generation=vllm", "generation.tensor_parallel=2", *four)
    found = []
    for process in range(4):
        trainer.accelerator.state.process_index = process
        found.append(trainer._places(8))
    trainer.accelerator.state.process_index = 0
    assert found == [range(16), range(16), range(16, 32), range(16, 32)]


def test_what_is_loaded_to_a_numbered_cpu_is_on_the_cpu(tmp_path: Path) -> None:
    import torch

    import isosweep.training.checkpoints  # noqa: F401  # teaches torch the name

    torch.save({"exp_avg": torch.arange(3.0)}, tmp_path / "optimizer.pt")
    # As transformers loads an optimiser in each of several processes.
    place = torch.device("cpu", 1)
    loaded = torch.load(tmp_path / "optimizer.pt", map_location=place, weights_only=True)
    assert loaded["exp_avg"].tolist() == [0.0, 1.0, 2.0]
    assert loaded["exp_avg"].device == torch.device("cpu")


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    rank = (
        "import os, pathlib, time; from isosweep.training.ranks import end_with; "
        "end_with(os.getppid()); "
        f"(pathlib.Path({str(tmp_path)!r}) / str(os.getpid())).touch(); time.sleep(600)"
    )
    made = f"Ranks(Group.alone(2), ['-c', {rank!r}])"
    lead = f"from isosweep.training.ranks import Group, Ranks; {made}.run(lambda: None)"
    leader = subprocess.Popen([sys.executable, "-c", lead])
    wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
    ranks = [int(path.name) for path in tmp_path.iterdir()]
    leader.kill()
    leader.wait()
    wait_for(lambda: not any(process_alive(number) for number in ranks), seconds=20)
