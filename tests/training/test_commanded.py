"""A run that a command of somebody's trains: started, followed, ended, gone on with, or refused."""

import json
import os
import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from isosweep.config.checkpoint import CheckpointConfig
from isosweep.config.health import HealthConfig
from isosweep.errors import TrainerError
from isosweep.machine import process_alive
from isosweep.plan.spec import RunSpec
from isosweep.store.paths import RunPaths, complete_checkpoints
from isosweep.store.records import read_records
from isosweep.tasks import heldout_problems, training_problems
from isosweep.training.worker import TrainRun
from tests.conftest import make_config
from tests.runs import wait_for
from tests.training.builders import exit_status, in_a_process, prepared, spec_of, state_of

OWN = Path(__file__).with_name("own_trainer.py")
WORDS = (
    f"{sys.executable} {OWN} --n {{n}} --batch {{B}} --seed {{seed}} --every 5 --steps {{T}} "
    "--out {directory}"
)
T = 40


def commanded(*more: str, checkpoints: bool = True) -> RunSpec:
    """A run of n = 4, B = 4; `more`: words of its command."""
    words = " ".join([WORDS, *more])
    goes_on = [
        "trainer.checkpoints='ckpt-{step}/state.json'",
        "trainer.resume='--resume {resume_from}'",
    ]
    return spec_of(
        "trainer=command",
        f"trainer.command='{words}'",
        *(goes_on if checkpoints else []),
        "trainer.poll_s=0.1",
        "budget_unit=rollouts",
        "budget=640",
    )


def job_of(run: RunPaths, steps: int) -> TrainRun:
    """Of 16 rollouts a step."""
    return TrainRun(
        str(run.root), (16.0 * steps,), "rollouts", HealthConfig(name="t"), CheckpointConfig()
    )


def measured(run: RunPaths) -> list[tuple[int, float, int, int]]:
    """Of every record: step, reward, rollouts, tokens."""
    return [
        (each.step, each.reward, each.compute.rollouts, each.compute.tokens)
        for each in read_records(run.records).records
    ]


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    run = prepared(commanded(), tmp_path_factory.mktemp("straight"))
    assert job_of(run, T)() == "finished"
    return run


def test_records_are_what_the_log_says(straight: RunPaths) -> None:
    found = measured(straight)
    assert [step for step, *_ in found] == [0, *range(5, T + 1, 5)]
    assert [rollouts for _, _, rollouts, _ in found] == [16 * step for step, *_ in found]
    assert [tokens for *_, tokens in found] == [16 * 20 * step for step, *_ in found]
    assert found[0][1] == pytest.approx(0.2)
    assert found[-1][1] == pytest.approx(0.2 + 0.5 * (1 - 2.718281828 ** (-T * 2 / 200)))
    seconds = [each.compute.device_seconds for each in read_records(straight.records).records]
    assert seconds == sorted(seconds)
    assert all(each.compute.flops > 0 for each in read_records(straight.records).records[1:])


def test_without_checkpoints_a_larger_budget_trains_anew(
    straight: RunPaths, tmp_path: Path
) -> None:
    run = prepared(commanded(checkpoints=False), tmp_path)
    assert job_of(run, T // 2)() == "finished"
    assert job_of(run, T)() == "finished"
    assert measured(run) == measured(straight)
    assert '"step": 0,' in (run.trained(2) / "log.jsonl").read_text()


@pytest.mark.parametrize("killed", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_worker_that_ends_takes_its_command_along(
    straight: RunPaths, tmp_path: Path, killed: signal.Signals
) -> None:
    run = prepared(commanded("--pause 0.1", "--fault child"), tmp_path)
    worker = in_a_process(partial(call, job_of(run, T)))
    wait_for(lambda: len(read_records(run.records).records) > 2)
    child = int((run.trained(1) / "child").read_text())
    assert process_alive(child)
    os.kill(worker, killed)
    exit_status(worker)
    wait_for(lambda: not process_alive(child))
    assert state_of(run).status == ("interrupted" if killed is signal.SIGTERM else "running")
    assert job_of(run, T)() == "finished"
    assert measured(run) == measured(straight)
    lines = (run.trained(2) / "log.jsonl").read_text().splitlines()
    assert '"step": 0,' not in lines[0]


def call(job: TrainRun) -> None:
    job()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("--fault crash", "the command ended with status 3"),
        ("--fault silent", "its log cannot be read: trainer.log="),
        ("--fault falling", "the tokens of its log fall"),
        ("--fault early", "ended early: its last evaluation is of step 20, at 50% of it"),
        ("--fault unscored", "its log has no held-out reward"),
        ("--fault liar", "tokens at step"),
        ("--fault more", "its log is at step"),
    ],
)
def test_a_command_that_cannot_be_believed_fails(tmp_path: Path, more: str, said: str) -> None:
    run = prepared(commanded(more), tmp_path)
    with pytest.raises(TrainerError, match=said):
        job_of(run, T)()
    assert state_of(run).status == "failed"
    assert said in (state_of(run).reason or "")


REWARD = """
def right(completions, answer, **_):
    return [float(said == known) for said, known in zip(completions, answer)]
"""


@pytest.mark.train
def test_trls_own_script_is_killed_and_goes_on(tmp_path: Path) -> None:
    data, own = tmp_path / "data", tmp_path / "own"
    for folder in (data, own):
        folder.mkdir()
    (own / "sorting_reward.py").write_text(REWARD)
    task = make_config("task.num_eval_problems=32").task
    for name, problems in (("train", training_problems(task)), ("test", heldout_problems(task))):
        rows = [json.dumps({"prompt": each.prompt, "answer": each.answer}) for each in problems]
        (data / f"{name}.jsonl").write_text("\n".join(rows))
    more = (
        f"--dataset_name {data} --reward_funcs sorting_reward.right --max_completion_length 8 "
        "--use_cpu True --bf16 False --warmup_steps 3 --beta 0 --disable_tqdm True"
    )
    spec = spec_of(
        "trainer=trl_script",
        f"trainer.more='{more}'",
        f"trainer.environment={{PYTHONPATH:'{own}'}}",
        "trainer.poll_s=0.1",
        "budget_unit=rollouts",
        "budget=640",
    )
    straight, broken = prepared(spec, tmp_path / "straight"), prepared(spec, tmp_path / "broken")
    assert job_of(straight, T)() == "finished"
    worker = in_a_process(partial(call, job_of(broken, T)))
    wait_for(lambda: complete_checkpoints(broken.attempt_checkpoints(1)), 60)
    os.kill(worker, signal.SIGKILL)
    exit_status(worker)
    assert job_of(broken, T)() == "finished"
    assert measured(broken) == measured(straight)
    assert [step for step, *_ in measured(straight)] == list(range(0, T + 1, T // 10))
    start = read_records(broken.records).chain
    assert start[1] < T


def test_a_budget_of_tokens_is_spent_by_the_tokens_of_the_log(tmp_path: Path) -> None:
    run = prepared(commanded("--pause 0.05"), tmp_path)
    job = replace(job_of(run, T), milestones=(16.0 * 20 * T,), unit="tokens")
    assert job() == "finished"
    last = read_records(run.records).records[-1]
    assert T <= last.step < 1.5 * T
    assert last.compute.tokens == 16 * 20 * last.step
    # Told more steps than that, for its answers might have been shorter than planned.
    told = int((run.trained(1) / "told").read_text())
    assert told > 1.25 * T
