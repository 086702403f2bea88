"""A run that a command of somebody's trains: started, followed, ended, gone on with, or refused."""

import json
import os
import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from isosweep.compute import Compute
from isosweep.config.study import CheckpointConfig, HealthConfig
from isosweep.errors import TrainerError
from isosweep.machine import process_alive
from isosweep.plan.spec import RunSpec
from isosweep.store.paths import RunPaths, complete_checkpoints
from isosweep.store.records import read_records
from isosweep.tasks import heldout_problems, training_problems
from isosweep.training.attempt import train_unsubmitted
from isosweep.training.command import read_log
from isosweep.training.session import TrainRun
from tests.conftest import make_config
from tests.runs import wait_for
from tests.training.builders import exit_status, in_a_process, prepared, spec_of, state_of

OWN = Path(__file__).with_name("own_trainer.py")
WORDS = (
    f"{sys.executable} {OWN} --n {{n}} --batch {{B}} --seed {{seed}} --every 5 --steps {{T}} "
    "--out {directory}"
)
GOES_ON = (
    "trainer.checkpoints='ckpt-{step}/state.json'",
    "trainer.resume='--resume {resume_from}'",
)
T = 40


def commanded(*more: str, settings: tuple[str, ...] = GOES_ON) -> RunSpec:
    """A run of n = 4, B = 4; `more`: words of its command."""
    command = ("trainer=command", f"trainer.command='{' '.join([WORDS, *more])}'")
    budget = ("trainer.poll_s=0.1", "budget_unit=rollouts", "budget=640")
    return spec_of(*command, *settings, *budget)


def job_of(run: RunPaths, steps: int) -> TrainRun:
    """Of 16 rollouts a step."""
    return TrainRun(str(run.root), (16.0 * steps,), "rollouts", HealthConfig(), CheckpointConfig())


def measured(run: RunPaths) -> list[tuple[int, float, int, int]]:
    """Of every record: step, reward, rollouts, tokens."""
    return [
        (each.step, each.reward, each.compute.rollouts, each.compute.tokens)
        for each in read_records(run.records).records
    ]


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    run = prepared(commanded(), tmp_path_factory.mktemp("straight"))
    assert train_unsubmitted(job_of(run, T)) == "finished"
    return run


def test_records_are_what_the_log_says(straight: RunPaths) -> None:
    found = measured(straight)
    steps = [0, *range(5, T + 1, 5)]
    assert [(step, *counts) for step, _, *counts in found] == [
        (step, 16 * step, 16 * 20 * step) for step in steps
    ]
    assert found[0][1] == pytest.approx(0.2)
    assert found[-1][1] == pytest.approx(0.2 + 0.5 * (1 - 2.718281828 ** (-T * 2 / 200)))
    computes = [each.compute for each in read_records(straight.records).records]
    seconds = [each.device_seconds for each in computes]
    assert seconds == sorted(seconds)
    assert all(each.flops > 0 for each in computes[1:])


@pytest.mark.parametrize("signed", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_worker_that_ends_takes_its_command_along(
    straight: RunPaths, tmp_path: Path, signed: signal.Signals
) -> None:
    goes_on = signed is signal.SIGKILL
    run = prepared(
        commanded("--pause 0.1", "--fault child", settings=GOES_ON if goes_on else ()), tmp_path
    )
    worker = in_a_process(partial(train_unsubmitted, job_of(run, T)))
    wait_for(lambda: len(read_records(run.records).records) > 2)
    child = int((run.trained(1) / "child").read_text())
    assert process_alive(child)
    os.kill(worker, signed)
    exit_status(worker)
    wait_for(lambda: not process_alive(child))
    assert state_of(run).status == ("running" if goes_on else "interrupted")
    assert train_unsubmitted(job_of(run, T)) == "finished"
    assert measured(run) == measured(straight)
    # Without checkpoints it trains anew.
    first = json.loads((run.trained(2) / "log.jsonl").read_text().partition("\n")[0])
    assert (first["step"] > 0) == goes_on


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
        train_unsubmitted(job_of(run, T))
    assert state_of(run).status == "failed"
    assert said in (state_of(run).reason or "")


def test_a_budget_of_tokens_is_spent_by_the_tokens_of_the_log(tmp_path: Path) -> None:
    run = prepared(commanded("--pause 0.05"), tmp_path)
    job = replace(job_of(run, T), milestones=(16.0 * 20 * T,), unit="tokens")
    assert train_unsubmitted(job) == "finished"
    last = read_records(run.records).records[-1]
    assert T <= last.step < 1.5 * T
    assert last.compute.tokens == 16 * 20 * last.step
    # Told more steps than that, for its answers might have been shorter than planned.
    assert int((run.trained(1) / "told").read_text()) > 1.25 * T


def test_tokens_of_each_row_are_summed_and_a_resumed_log_counts_anew(tmp_path: Path) -> None:
    file, spec = tmp_path / "log.csv", commanded(settings=("trainer.columns={per_step:true}",))
    text = "step,num_tokens,eval_reward\n4,300,\n5,200,0.5\n6,400,0.2"
    file.write_text(text)
    before = Compute(generations=3, prompt_tokens=1000)
    half = read_log(spec, str(file), before, 3, ended=False)
    # Its last line may go on: 0.25.
    assert (half.last_step, half.tokens_at(5)) == (5, 1500)
    assert half.evaluations is not None
    assert half.evaluations.rewards.tolist() == [0.5]
    whole = read_log(spec, str(file), before, 3, ended=True)
    assert (whole.last_step, whole.tokens_at(6)) == (6, 1900)
    file.write_text(f"{text}5\n")
    more = read_log(spec, str(file), before, 3, ended=False)
    assert more.evaluations is not None
    assert more.evaluations.rewards.tolist() == [0.5, 0.25]


REWARD = """
def right(completions, answer, **_):
    return [float(said == known) for said, known in zip(completions, answer)]
"""


@pytest.mark.train
def test_trls_own_script_is_killed_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "sorting_reward.py").write_text(REWARD)
    task = make_config("task.num_eval_problems=32").task
    for name, problems in (("train", training_problems(task)), ("test", heldout_problems(task))):
        rows = [json.dumps({"prompt": each.prompt, "answer": each.answer}) for each in problems]
        (tmp_path / "data" / f"{name}.jsonl").write_text("\n".join(rows))
    more = (
        f"--dataset_name {tmp_path / 'data'} --reward_funcs sorting_reward.right "
        "--max_completion_length 8 "
        "--use_cpu True --bf16 False --warmup_steps 3 --beta 0 --disable_tqdm True"
    )
    spec = spec_of(
        *("trainer=trl_script", f"trainer.more='{more}'", "trainer.poll_s=0.1"),
        *(f"trainer.environment={{PYTHONPATH:'{tmp_path}'}}", "budget_unit=rollouts", "budget=640"),
    )
    run = prepared(spec, tmp_path)
    worker = in_a_process(partial(train_unsubmitted, job_of(run, T)))
    wait_for(lambda: complete_checkpoints(run.attempt_checkpoints(1)), 300)
    os.kill(worker, signal.SIGKILL)
    exit_status(worker)
    assert train_unsubmitted(job_of(run, T)) == "finished"
    assert [step for step, *_ in measured(run)] == list(range(0, T + 1, T // 10))
    assert measured(run)[-1][2] == 16 * T
    assert 0 < read_records(run.records).chain[1] < T
