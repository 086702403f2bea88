"""One's own task, reward, model, recipe and trainer, and problems chosen by difficulty."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.contract.surface import (
    TINY,
    document_of,
    isosweep,
    records_of,
    runs_of,
    start,
    stored_plan,
    wait_for,
)

ROOT = Path(__file__).parents[2]
# The language and the content of every block of code.
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Of the 12 runs of docs/own.md, those that show that each of its files is used.
SMALLER = ("budget=[512,1024]", "grid.num_generations=[4,16]", "grid.seeds=[0]")


def made_from_the_page(directory: Path) -> list[str]:
    """Make every file of docs/own.md in `directory`, and return its commands."""
    page = (ROOT / "docs" / "own.md").read_text(encoding="utf-8")
    commands: list[str] = []
    for block in _BLOCK.finditer(page):
        language, content = block.groups()
        if language == "sh":
            commands += content.splitlines()
            continue
        # The file named last before a block is the block.
        suffix = {"python": "py", "yaml": "yaml"}[language]
        *_, name = re.findall(rf"`([\w/]+\.{suffix})`", page[: block.start()])
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        assert not file.exists(), name
        file.write_text(content, encoding="utf-8")
    return commands


@pytest.mark.slow
@pytest.mark.train
def test_the_page_is_a_sweep_of_ones_own(tmp_path: Path) -> None:
    weights, *planned = (shlex.split(command) for command in made_from_the_page(tmp_path))
    subprocess.run([sys.executable, *weights[1:]], cwd=tmp_path, check=True)
    assert [command[:3] for command in planned] == [["python", "-m", "isosweep"]] * 2
    (asked, whole) = (command[3:] for command in planned)
    assert asked == [*whole, "mode=plan"]
    # As users start it.
    isosweep(*asked, cwd=tmp_path, fresh=True)
    assert len(stored_plan(tmp_path)["runs"]) == 12
    shutil.rmtree(tmp_path / "sweeps")
    isosweep(*whole, *SMALLER, cwd=tmp_path)
    (answer,) = (tmp_path / "sweeps").glob("*/analysis/credit=partial/answer.json")
    assert document_of(answer)["verdict"]
    assert (answer.parent.parent / "report.html").is_file()
    specs = [document_of(run.root / "spec.json")["spec"] for run in runs_of(tmp_path)]
    assert len(specs) == 4
    assert {spec["model"]["name"] for spec in specs} == {"ours"}
    assert {spec["recipe"]["learning_rate"] for spec in specs} == {2e-4}
    assert {spec["task"]["custom"]["parameters"]["partial"] for spec in specs} == {True, False}
    # A sweep keeps its settings: nothing of the directory is named again.
    kept = isosweep("mode=status", f"sweep={answer.parents[2]}", cwd=tmp_path)
    assert "4 done" in kept.stdout


OWN = ROOT / "tests" / "training" / "own_trainer.py"
WORDS = (
    f"{sys.executable} {OWN} --n {{n}} --batch {{B}} --seed {{seed}} --every 5 --steps {{T}} "
    "--out {directory} --pause 0.1"
)
COMMAND = (
    *("trainer=command", f"trainer.command='{WORDS}'", "trainer.poll_s=0.1"),
    *("trainer.checkpoints='ckpt-{step}/state.json'", "trainer.resume='--resume {resume_from}'"),
    *(*TINY, "budget_unit=rollouts"),
)


def test_a_command_that_is_killed_and_extended_leaves_the_same_records(tmp_path: Path) -> None:
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    straight.mkdir()
    broken.mkdir()
    isosweep(*COMMAND, "budget=[320,640]", cwd=straight)
    driver = start(broken, *COMMAND, "budget=320", "sweep=s")
    wait_for(lambda: any(len(run.records) > 2 for run in runs_of(broken)))
    driver.kill()
    driver.wait(timeout=60)
    for run in runs_of(broken):
        os.kill(run.state["pid"], signal.SIGKILL)
    isosweep(*COMMAND, "budget=[320,640]", cwd=broken)
    assert records_of(broken) == records_of(straight)
    for run in runs_of(broken):
        assert run.records[40]["compute"]["rollouts"] == 40 * 4 * int(run.run_id.split("-n")[1][0])


MIXED = (
    *("budget=[256,512]", "budget_unit=rollouts", "grid.num_generations=[4,8]"),
    *("grid.seeds=[0]", "grid.tolerance=0.1", "tracking=none"),
    *(f"task.mixture.parts.{part}.num_eval_problems=16" for part in ("long", "short")),
)


@pytest.mark.long
@pytest.mark.train
def test_a_mixture_is_trained_and_analysed_by_its_parts(tmp_path: Path) -> None:
    done = isosweep("task=sort_mix", *MIXED, cwd=tmp_path)
    assert "with the sets long (16 problems), short (16 problems)" in " ".join(done.stdout.split())
    isosweep("mode=analyse", "analysis.evaluation_set=short", cwd=tmp_path)
    (report,) = tmp_path.glob("sweeps/*/analysis/set=short/report.html")
    assert "short" in report.read_text(encoding="utf-8")


def test_the_mixtures_of_the_page_are_planned(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "mixtures.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^    python -m isosweep (.*)$", page, re.MULTILINE)
    (content,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    file = tmp_path / "conf" / "task" / "sums_and_games.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(content, encoding="utf-8")
    own = ("task=sums_and_games", "task.mixture.parts.sums.math.split=test")
    mine = ("--config-dir", "conf", "model=qwen-0.5b", "budget=1e18", *own)
    for name, typed, parts in (
        ("page", shlex.split(command), [("four", 256), ("six", 256)]),
        ("mine", mine, [("games", 256), ("sums", 256)]),
    ):
        said = isosweep(*typed, "mode=plan", f"sweeps_dir={name}", cwd=tmp_path).stdout
        shown = ", ".join(f"{part} ({problems} problems)" for part, problems in parts)
        assert f"with the sets {shown}" in " ".join(said.split())


MEASURE = ("mode=difficulty", "difficulty.max_problems=96", "difficulty.batch_size=64")


def measured(cwd: Path) -> list[Any]:
    """Problems with their successes; the last line of a measurement that was killed may be torn."""
    found = []
    for path in cwd.glob("sweeps/difficulty/*.jsonl"):
        for line in path.read_text().split("\n")[1:-1]:
            found += json.loads(line)["problems"]
    return found


@pytest.mark.train
def test_a_killed_measurement_goes_on_and_its_problems_are_trained_on(tmp_path: Path) -> None:
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    straight.mkdir()
    killed.mkdir()
    done = isosweep(*MEASURE, cwd=straight)
    assert "96 problems, avg@16" in done.stdout
    process = start(killed, *MEASURE)
    wait_for(lambda: len(measured(killed)) >= 8, pause=0.005)
    process.kill()
    process.wait(timeout=60)
    kept = measured(killed)
    assert 8 <= len(kept) < 96, "it was killed too late"
    isosweep(*MEASURE, cwd=killed)
    assert measured(killed)[: len(kept)] == kept
    assert measured(killed) == measured(straight)
    # The split is reported again without measuring anything.
    (file,) = killed.glob("sweeps/difficulty/*.jsonl")
    before = file.read_bytes()
    shown = isosweep(*MEASURE, cwd=killed).stdout
    assert re.search(r"solved +above 0\.9 to 1 ", shown)
    assert file.read_bytes() == before
    sizes = ("task.num_train_problems=8", "task.num_eval_problems=4", "grid.max_epochs=1000")
    chosen = ("difficulty.max_problems=96", "task.difficulty=[0.05,0.7]")
    settings = (*TINY, "grid.num_generations=[4]", "budget=2e9", "grid.min_steps=1")
    isosweep(*settings, "grid.tolerance=0.2", *sizes, *chosen, cwd=killed)
    (run,) = runs_of(killed)
    assert len(run.records[0]["successes"]) == 4
    rates = {entry["problem"]["problem_id"]: entry["successes"] / 16 for entry in measured(killed)}
    (selection,) = (killed / "sweeps" / "problems").iterdir()
    selected = document_of(selection)
    assert len(selected["training"]) == 8
    for entry in (*selected["training"], *selected["heldout"]):
        assert 0.05 <= rates[entry["problem"]["problem_id"]] <= 0.7


@pytest.mark.slow
@pytest.mark.train
def test_a_pretrained_language_model_learns_from_its_package(tmp_path: Path) -> None:
    from tests import language_model

    language_model.packaged()
    small = (
        *("budget=[16,32]", "grid.num_generations=[4]", "grid.seeds=[0]", "tracking=none"),
        *("task.num_train_problems=8", "task.num_eval_problems=8"),
    )
    isosweep("+experiment=laptop/smollm2", *small, cwd=tmp_path)
    (run,) = runs_of(tmp_path)
    assert run.state["status"] == "finished"
    assert run.trained == [1, 2, 3, 4]
    # A pretrained model adds single digits before it is trained.
    assert sum(run.records[0]["successes"]) > 0
    assert run.records[4]["compute"]["rollouts"] == 32
