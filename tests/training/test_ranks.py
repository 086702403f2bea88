"""A run of two processes (gloo, CPU): one book, one policy, one who decides."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from isosweep.errors import RecordError
from isosweep.files import write_json
from isosweep.machine import process_alive
from isosweep.models.weights import weights
from isosweep.plan.spec import RunSpec
from isosweep.store.attempts import Status, begin
from isosweep.store.checkpoints import ResumePoint
from isosweep.training import attempt
from isosweep.training.attempt import train_beside_rank_0
from isosweep.training.distributed import Rank, find_rank, run_ranks
from isosweep.training.session import Session
from isosweep.training.stopping import StopRequest
from tests.runs import wait_for
from tests.training.builders import (
    listen,
    prepared,
    spec_of,
    state_of,
    submitted,
    train,
    trainer_of,
)

pytestmark = pytest.mark.train
TWO = ("hardware.devices_per_run=2", "hardware.interconnect_bandwidth=1e10")


def test_each_signal_reaches_the_first_process(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGUSR2, lambda *_: print('warned'))\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        f"pathlib.Path({str(tmp_path)!r}, os.environ['RANK']).touch()\n"
        "time.sleep(600 if os.environ['RANK'] == '0' else 3)"
    )
    signals: list[signal.Signals] = []

    def send() -> None:
        wait_for((tmp_path / "0").exists)
        signals.append(signal.SIGUSR2)
        signals.append(signal.SIGTERM)

    threading.Thread(target=send).start()
    assert run_ranks(2, ["-c", code], signals) == [0, 0]


def of_slurm(monkeypatch: pytest.MonkeyPatch, **changed: str) -> Rank:
    """The rank of the fourth task of a job of two nodes with two tasks each."""
    variables = {
        "SLURM_JOB_ID": "17",
        "SLURM_NTASKS": "4",
        "SLURM_STEP_NUM_TASKS": "4",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_JOB_NODELIST": "localhost,gpu[07-09]",
        "SLURM_PROCID": "3",
        "SLURM_LOCALID": "1",
        "SLURM_LAUNCH_NODE_IPADDR": "192.0.2.7",
        # A user's own, which srun hands on.
        "RANK": "7",
        "MASTER_PORT": "1",
        **changed,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return find_rank("slurm")


def test_a_task_of_slurm_is_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    # What else is set is set back.
    monkeypatch.setattr(os, "environ", dict(os.environ))
    assert of_slurm(monkeypatch) == Rank(3, 4, 2)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
    assert [os.environ[name] for name in names] == ["3", "4", "1", "2", "localhost"]
    ports = {os.environ["MASTER_PORT"]}
    for changed in ({"SLURM_RESTART_COUNT": "1"}, {"SLURM_JOB_ID": "18"}):
        of_slurm(monkeypatch, **changed)
        ports.add(os.environ["MASTER_PORT"])
    assert len(ports) == 3
    assert all(1024 < int(port) < 32768 for port in ports)
    of_slurm(monkeypatch, SLURM_JOB_NODELIST="no-such-node-[1-2]")
    assert os.environ["MASTER_ADDR"] == "192.0.2.7"
    assert of_slurm(monkeypatch, SLURM_STEP_NUM_TASKS="1") == Rank()


def test_what_another_rank_meets_is_why_the_attempt_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = prepared(spec_of(*TWO), tmp_path)
    submitted(run, [1e9])
    own = begin(state_of(run), None)

    def fail(session: Session) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(attempt, "join", lambda rank, device: None)
    monkeypatch.setattr(attempt, "train_session", fail)
    monkeypatch.setattr(Rank, "agree", lambda rank, _: (own.number, ResumePoint(0, None, None)))
    with pytest.raises(RuntimeError, match="planted"):
        train_beside_rank_0(own, Rank(1, 2, 2), StopRequest())
    assert state_of(run).status is Status.FAILED
    assert state_of(run).reason == f"rank 1 ({socket.gethostname()}): RuntimeError: planted"


def test_a_node_that_draws_other_problems_trains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from isosweep.training import assembly

    places: list[object] = []

    def gathered(own: list[object]) -> list[object]:
        places.extend(own)
        return places

    monkeypatch.setattr(assembly, "gather_object", gathered)

    def joins(*overrides: str) -> None:
        spec = spec_of(*TWO, *overrides)
        assembly.require_same_inputs(spec, str(weights(spec.model)), {})

    joins()
    joins()
    with pytest.raises(RecordError, match="has other problems than"):
        joins("task.data_seed=7")


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
    words = ["-m", "tests.training.test_ranks", str(out), str(steps), *map(str, specs)]
    assert run_ranks(2, words, []) == [0, 0]
    found = [json.loads((out / f"{rank}.json").read_text()) for rank in range(2)]
    return [list(pair) for pair in zip(*found, strict=True)]


def test_counts_are_sums_over_processes(ranks: list[dict[str, Any]]) -> None:
    sums = [sum(parts) for parts in zip(*(rank["sampled"] for rank in ranks), strict=True)]
    assert ranks[0]["spent"] == ranks[1]["spent"] == sums
    assert sums[0] == STEPS * 4 * 8
    assert ranks[0]["flops"] == ranks[1]["flops"]
    assert ranks[0]["hardware_flops"] == ranks[1]["hardware_flops"] > ranks[0]["flops"]


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


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    rank = (
        "import os, pathlib, time; from isosweep.training.distributed import find_rank; "
        "find_rank('local'); "
        f"(pathlib.Path({str(tmp_path)!r}) / str(os.getpid())).touch(); time.sleep(600)"
    )
    made = f"run_ranks(2, ['-c', {rank!r}], [])"
    lead = f"from isosweep.training.distributed import run_ranks; {made}"
    leader = subprocess.Popen([sys.executable, "-c", lead])
    wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
    ranks = [int(path.name) for path in tmp_path.iterdir()]
    leader.kill()
    leader.wait()
    wait_for(lambda: not any(process_alive(number) for number in ranks), seconds=20)


def report(spec: RunSpec, directory: Path, steps: int) -> dict[str, Any]:
    trainer = trainer_of(spec, directory)
    heard = listen(trainer)
    metrics = train(trainer, steps)
    spent, problems = trainer.ledger.spent, [step["problem"] for step in heard]
    ids = [ids for step in heard for ids in step["ids"]]
    prompts = [len(trainer.prompts[i]) for step in problems for i in step]
    return {
        "problems": problems,
        "ids": [step["ids"] for step in heard],
        "sampled": [len(ids), sum(prompts), sum(map(len, ids))],
        "spent": [spent.rollouts, spent.prompt_tokens, spent.completion_tokens],
        "flops": spent.flops,
        "hardware_flops": spent.hardware_flops,
        "rewards": [values["reward"] for values in metrics],
        "losses": [values["loss"] for values in metrics],
        "weights": float(sum(p.detach().double().sum() for p in trainer.model.parameters())),
    }


def main(out: Path, steps: int, specs: list[str]) -> None:
    """One of the processes: trains each run, and reports what it sampled."""
    found = [
        report(RunSpec.from_json(json.loads(Path(file).read_text())), out / "checkpoints", steps)
        for file in specs
    ]
    (out / f"{os.environ['RANK']}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
