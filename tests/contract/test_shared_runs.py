"""A run is trained once for all who need it, spends what is planned, and sees the same problems."""

import json
import shutil
from pathlib import Path

import pytest

from tests.contract.surface import (
    TINY,
    TWO_RUNS,
    isosweep,
    records_of,
    runs_of,
    start,
    status_of,
    stored_plan,
)

pytestmark = pytest.mark.train


def flops(record: dict[str, dict[str, float]]) -> float:
    """What a record's run has spent by the cost model: budgets are in it."""
    return sum(value for name, value in record["compute"].items() if name in _SPENT)


_SPENT = ("prefill_flops", "decode_flops", "old_policy_flops", "reference_flops", "training_flops")


def test_every_cell_spends_its_budget_by_measured_compute(straight: Path) -> None:
    assert [path.name for path in straight.iterdir()] == ["sweeps"]
    plan = stored_plan(straight)
    assert len(plan["cells"]) == 4
    records = records_of(straight)
    steps = {run.run_id: run.trained for run in runs_of(straight)}
    for cell in plan["cells"]:
        taken = records[cell["run_id"]]
        spent = {step: flops(record) for step, record in taken.items()}
        last = max(spent)
        one_step = spent[last] / last
        assert min(abs(each - cell["budget"]) for each in spent.values()) <= one_step
        # It ends by what it measured, not by the number of steps that was planned.
        assert plan["budgets"][-1] - one_step <= spent[last] <= plan["budgets"][-1] + one_step
        assert steps[cell["run_id"]][-1] == last


def test_status_says_what_checkpoints_take(straight: Path) -> None:
    status = status_of(straight)
    assert status["counts"]["done"] == 2
    kept = (straight / "sweeps" / "runs").glob("*/checkpoints/*/checkpoint-*/*")
    sizes = [path.stat().st_size for path in kept if path.name != "isosweep-files.json"]
    assert status["checkpoint_bytes"] == sum(sizes) > 0


def test_a_larger_budget_extends_a_run_and_a_third_sweep_trains_nothing(
    straight: Path, tmp_path: Path
) -> None:
    isosweep("budget=6.4e9", *TINY, cwd=tmp_path)
    runs = runs_of(tmp_path)
    half = [run.records for run in runs]
    isosweep(*TWO_RUNS, cwd=tmp_path)
    assert records_of(tmp_path) == records_of(straight)
    for run, before in zip(runs, half, strict=True):
        assert before.items() <= run.records.items()
        assert run.trained == list(range(1, run.state["step"] + 1))
        assert run.attempts == 2
    isosweep(*TWO_RUNS, "sweep=third", cwd=tmp_path)
    assert [run.attempts for run in runs] == [2, 2]


def test_a_later_job_of_a_multirun_extends_the_runs_of_an_earlier_one(
    straight: Path, tmp_path: Path
) -> None:
    isosweep("-m", "budget=6.4e9,1.28e10", *TINY, cwd=tmp_path)
    assert records_of(tmp_path) == records_of(straight)
    assert [run.attempts for run in runs_of(tmp_path)] == [2, 2]
    reports = {path.parent.parent.name for path in tmp_path.glob("sweeps/*/analysis/report.html")}
    assert len(reports) == 2


@pytest.mark.slow
def test_two_sweeps_at_once_share_their_runs(straight: Path, tmp_path: Path) -> None:
    drivers = [start(tmp_path, *TWO_RUNS, f"sweep={name}", name=name) for name in ("one", "other")]
    assert [driver.wait(timeout=300) for driver in drivers] == [0, 0], drivers[1].written
    assert records_of(tmp_path) == records_of(straight)
    for run in runs_of(tmp_path):
        assert run.trained == list(range(1, run.state["step"] + 1))


@pytest.mark.long
def test_updates_that_share_rollouts_are_counted_with_them(tmp_path: Path) -> None:
    twice = (*TINY, "recipe.num_iterations=2", "grid.num_generations=[2]")
    isosweep("budget=6.4e9", *twice, cwd=tmp_path)
    (run,) = runs_of(tmp_path)
    (*_, last) = run.records.values()
    spent = last["compute"]
    assert all(step % 2 == 0 for step in run.records)
    assert spent["generations"] == last["step"] / 2
    assert spent["rollouts"] == 8 * spent["generations"]
    # One more log-probability pass a generation, and two updates of three passes' cost.
    assert spent["training_flops"] == pytest.approx(6 * spent["old_policy_flops"])
    assert abs(flops(last) - 6.4e9) <= flops(last) / spent["generations"]
    assert run.trained == list(range(1, last["step"] + 1))


def test_a_failing_run_is_reported_and_takes_nothing_else_down(
    straight: Path, tmp_path: Path
) -> None:
    broken, other = (tmp_path / "sweeps" / "runs" / run.run_id for run in runs_of(straight))
    # A file where its checkpoints should go.
    broken.mkdir(parents=True)
    (broken / "checkpoints").write_text("in the way")
    retries = "launcher.max_retries=0"
    done = isosweep("budget=6.4e9", *TINY, retries, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert f"failed: {broken.name}" in done.stdout
    told = [line for line in done.stdout.splitlines() if " done: n=" in line]
    assert len(told) == 2, "a line for each run that is over, the last one too"
    standings = {run["run_id"]: run["standing"] for run in status_of(tmp_path)["runs"]}
    assert standings == {broken.name: "failed", other.name: "done"}


def test_garbage_in_a_runs_files_is_named_and_mended(straight: Path, tmp_path: Path) -> None:
    shutil.copytree(straight / "sweeps", tmp_path / "sweeps")
    first, second = runs_of(tmp_path)
    state = first.root / "attempts" / "1.json"
    state.write_text("{ garbage")
    (first.root / "spec.json").write_bytes(b"\x00\xff")
    done = isosweep(*TWO_RUNS, cwd=tmp_path)
    assert f"warning: {state}: not the state of a run" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    # It went on from its last checkpoint, where nothing was left to train.
    assert [(run.state["status"], run.attempts) for run in (first, second)] == [
        ("finished", 2),
        ("finished", 1),
    ]
    assert records_of(tmp_path) == records_of(straight)


# A task whose score writes down which problems it was asked about, in which order.
_LOGGED = """
import json
from isosweep.tasks import Problem

def logged():
    asked = [Problem(problem_id=str(i), prompt=f"s{i}=", answer=str(i)) for i in range(100, 300)]
    def score(problems, completions):
        with open("asked", "a") as file:
            file.write(json.dumps([p.problem_id for p in problems]) + "\\n")
        return [float(p.answer[0] in c) for p, c in zip(problems, completions)]
    return asked, score
"""
_TASK = (
    *("task=custom", "task.custom.function=own:logged", "task.custom.directory=."),
    *("task.num_train_problems=32", "task.num_eval_problems=8", "task.prompt_tokens=5"),
    *("task.completion_tokens=4", "task.max_completion_tokens=4"),
    *("grid.problems_per_batch=[4]", "grid.seeds=[0]", "grid.tolerance=0.1"),
    *("evaluation.samples_per_problem=2", "budget_unit=rollouts", "budget=256"),
    *("tracking=none", "launcher=inline"),
)


def test_runs_that_differ_in_n_see_the_same_problems_in_the_same_order(tmp_path: Path) -> None:
    trained, evaluated = [], []
    for n in (2, 4):
        cwd = tmp_path / str(n)
        cwd.mkdir()
        (cwd / "own.py").write_text(_LOGGED)
        isosweep(*_TASK, f"grid.num_generations=[{n}]", cwd=cwd)
        asked = [json.loads(line) for line in (cwd / "asked").read_text().splitlines()]
        # The first question of all is one answer, and whether the function works.
        heldout = next(ids for ids in asked if len(ids) == 16)
        steps = [ids for ids in asked if len(ids) == 4 * n and not {*ids} & {*heldout}]
        assert all(ids == [each for each in ids[::n] for _ in range(n)] for ids in steps)
        trained.append([ids[::n] for ids in steps])
        evaluated.append([ids for ids in asked if {*ids} == {*heldout}])
    short, long = sorted(trained, key=len)
    assert 4 <= len(short) < len(long)
    assert long[: len(short)] == short
    # And all are evaluated on the same others, by the same number of samples.
    assert {json.dumps(ids) for run in evaluated for ids in run} == {json.dumps(heldout)}
    first, again = (run.records[0] for n in (2, 4) for run in runs_of(tmp_path / str(n)))
    assert first == again
