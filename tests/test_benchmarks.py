"""The benchmarks run, and fail where a goal is missed; what they measure is for their readers."""

import argparse
import importlib
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import missing
from tests.slurm.cluster import missing_parts

ROOT = Path(__file__).resolve().parent.parent


BENCHMARKS = ROOT / "benchmarks"
TINY = ("--model", "tiny", "--backend", "transformers")
# The least that gives every benchmark a figure, and a goal of each that no machine reaches.
SMALLEST = {
    "plan": (("--sizes", "10000", "--repeats", "1"), "ratio=0.01"),
    "coverage": (("--sweeps", "1", "--worlds", "flat"), "false=-1"),
    "search": (("--sweeps", "1", "--worlds", "flat", "--ways", "search"), "compute=-1"),
    "search_speed": (("--repeats", "1"), "choose=0"),
    "gpu": (
        (*TINY, "--hardware", "cpu", "--completion", "8", "--steps", "2"),
        "rest=0",
    ),
    "chaos": (("--seeds", "1", "--faults", "3"), "unfinished=-1"),
    "launch": (
        (
            *("--jobs", "4", "--rounds", "1", "--live", "2", "--minutes", "0.3"),
            *("--bound", "3", "--mixed", "8", "--simulated", "20", "4", "--runs", "40"),
        ),
        "calls=0",
    ),
    "overlap": (("--num-generations", "2", "--steps", "8", "--rounds", "1"), "lag=0"),
    "padding": (("--updates", "2", "--short", "8", "--micro-batch", "64"), "positions=0"),
    "phases": (
        ("budget=6.4e9", "grid.num_generations=[4]", "grid.seeds=[0]", "task.num_eval_problems=8"),
        "evaluation=0",
    ),
    "published": ((), "within=2"),
    "tracking": (("--runs", "2", "--points", "5"), "first=0"),
    "worker": (
        (
            *("--num-generations", "2", "--block", "2", "--blocks", "3"),
            *("--starts", "1", "--rounds", "1"),
        ),
        "step=0.01",
    ),
}


def run(name: str, *options: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *options]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=300
    )


def missed(name: str, cwd: Path) -> list[str]:
    """What the benchmark prints, asked for a goal that it cannot reach."""
    options, impossible = SMALLEST[name]
    done = run(name, *options, "--check", "--goal", impossible, cwd=cwd)
    goal = impossible.partition("=")[0]
    lines = done.stdout.splitlines()
    judged = [line for line in lines if line.startswith(f"goal {goal}:")]
    assert [line.split()[-1] for line in judged] == ["MISSED"], done.stderr
    assert done.returncode == 1, done.stderr
    assert list(cwd.iterdir()) == []
    return [line for line in lines if not line.startswith("goal ")]


def test_every_benchmark_is_listed_here_and_takes_both_flags() -> None:
    parts = {"frame", "kinds", "directory", "chaos_world", "chaos_faults"}
    parts |= {"power", "find_table"}
    files = {path.stem for path in BENCHMARKS.glob("*.py")} - parts
    assert files == SMALLEST.keys()
    for name in files:
        text = (BENCHMARKS / f"{name}.py").read_text()
        assert "    benchmark(measure, GOALS, QUICK" in text, f"{name} has no goals, or no --quick"


# What needs something, or long.
MARKS = {"tracking": pytest.mark.mlflow, "launch": pytest.mark.slurm, "chaos": pytest.mark.long}


def marked(name: str) -> Any:
    own = [MARKS[name]] if name in MARKS else []
    return pytest.param(name, marks=[pytest.mark.slow, *own])


@pytest.mark.parametrize("name", [*map(marked, SMALLEST)])
def test_a_goal_that_is_missed_ends_with_status_1(name: str, tmp_path: Path) -> None:
    if name == "launch" and (lacks := missing_parts()):
        missing("slurm", f"no Slurm can run on this machine, it lacks: {', '.join(lacks)}")
    assert missed(name, tmp_path)


def test_goals_are_changed_and_only_judged_where_a_check_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    frame = importlib.import_module("frame")
    asked: list[argparse.Namespace] = []
    goals = {
        "a": frame.Goal("of three", "at least", 3),
        "b": frame.Goal("more", "at most", 9),
        "c": frame.Goal("none", "at least", 0),
    }

    def measure(given: argparse.Namespace) -> dict[str, float]:
        asked.append(given)
        return {"a": 2.0, "b": 5.0, "c": math.nan}

    def left(*words: str) -> object:
        monkeypatch.setattr(sys, "argv", ["it.py", *words])
        options = {"--sweeps": (40, "how many"), "--n": [2, 4], "--kept": False}
        try:
            frame.benchmark(measure, dict(goals), {"sweeps": 4}, options)
        except SystemExit as end:
            return end.code
        return 0

    assert left() == 0
    ends = [line.split()[-1] for line in capsys.readouterr().out.splitlines()]
    assert ends == ["MISSED", "met", "MISSED"]
    assert left("--check") == left("--check", "--goal", "a=1") == 1
    assert left("--quick", "--n", "8", "16", "--kept") == 0
    assert [(of.sweeps, of.n, of.kept) for of in asked[::3]] == [
        (40, [2, 4], False),
        (4, [8, 16], True),
    ]
    assert left("--goal", "d=3") == 2
    assert "the goals are a, b, c" in capsys.readouterr().err


def test_published_rows_are_planned_within_the_goals(tmp_path: Path) -> None:
    done = run("published", "--check", cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-600:]
    assert sum(line.endswith(" yes |") for line in done.stdout.splitlines()) >= 30
