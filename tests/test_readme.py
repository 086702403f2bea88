"""Commands of README.md, and those of docs/start.md, do what is said of them."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from isosweep import make_plan
from tests.commands import in_process
from tests.conftest import SMALL

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
START = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")


# Two runs of seconds, in place of the 18 of the default sweep: those of the fixture `straight`.
FEWER = ("budget=[6.4e9,1.28e10]", *SMALL)


def recipe(name: str) -> list[list[str]]:
    """The overrides of each command of one recipe of the README."""
    (block,) = re.findall(rf"^```sh {name}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return commands(block)


def commands(text: str) -> list[list[str]]:
    """The overrides of each `python -m isosweep` that begins a line."""
    lines = re.findall(r"^ *python -m isosweep\b(.*)$", text, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


def of_language_models() -> list[list[str]]:
    """All commands of both pages that name a model and are not about a sweep that exists."""
    typed = [*commands(README), *commands(START)]
    return [words for words in typed if any(word.startswith("model=") for word in words)]


def test_the_pages_have_commands_to_try() -> None:
    assert len(recipe("laptop")) == 3
    assert len(recipe("gpu")) == 2
    assert len(recipe("cluster")) == 4
    assert len(of_language_models()) >= 6
    assert README.count("\n") <= 100


@pytest.mark.parametrize("words", of_language_models(), ids=" ".join)
def test_what_names_a_language_model_is_planned_on_mathematics(words: list[str]) -> None:
    own = [word for word in words if not word.startswith(("mode=", "dry_run="))]
    planned = make_plan(own)
    assert planned.study.config.task.name == "math"
    assert planned.price.runs >= 10


def test_one_configuration_is_described_as_shown(tmp_path: Path) -> None:
    ((command, shown),) = re.findall(
        r"^    \$ python -m isosweep (.*)\n((?:    [^$].*\n)+)", README, re.MULTILINE
    )
    printed = in_process(tuple(shlex.split(command)), tmp_path).stdout
    assert {line.strip() for line in shown.splitlines()} <= set(printed.splitlines())


def test_the_dry_run_of_the_cluster_prints_its_scripts(tmp_path: Path) -> None:
    dry, real, *_ = recipe("cluster")
    assert {"mode=launch", "dry_run=true"} <= set(dry)
    # It is about the sweep that the next command launches.
    limit = [word for word in real if word.startswith("launcher.max_device_hours=")]
    assert [word for word in dry if word not in ("mode=launch", "dry_run=true")] + limit == real
    # Which it does not refuse.
    (most,) = [float(word.partition("=")[2]) for word in limit]
    assert most / 2 < make_plan(real).price.device_hours <= most
    printed = in_process(tuple(dry), tmp_path).stdout
    assert "#SBATCH --partition=gpu" in printed
    assert not list(tmp_path.glob("sweeps/runs/*"))


@pytest.mark.train
def test_the_laptops_commands_follow_each_other(straight: Path, tmp_path: Path) -> None:
    default, status, recommend = recipe("laptop")
    assert default == []
    shutil.copytree(straight / "sweeps", tmp_path / "sweeps")
    assert "2 runs: 2 done; verdict: " in in_process(tuple(status), tmp_path).stdout
    asked = tuple("budget=1e10" if word.startswith("budget=") else word for word in recommend)
    assert "at 1e10 FLOPs use n = " in in_process(asked, tmp_path).stdout
