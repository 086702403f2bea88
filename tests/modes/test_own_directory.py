"""docs/own.md: its files and commands are a sweep of one's own task, reward, model and recipe."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from isosweep.files import JsonObject, read_json
from tests.conftest import isosweep

PAGE = Path(__file__).parent.parent.parent / "docs" / "own.md"
# The language and the content of every block of code.
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Of the page's 12 runs, those that show that each of its files is used.
SMALLER = ("budget=[512,1024]", "grid.num_generations=[4,16]", "grid.seeds=[0]")


def made_from_the_page(directory: Path) -> list[str]:
    """Make every file of the page in `directory`, and return its commands."""
    page = PAGE.read_text(encoding="utf-8")
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
def test_the_page_is_a_sweep_of_ones_own(tmp_path: Path) -> None:
    commands = made_from_the_page(tmp_path)
    made = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*.*")}
    assert made == {
        "lab.py",
        *(f"conf/{name}.yaml" for name in ("task/places", "recipe/ours", "model/ours")),
        "conf/experiment/partial_credit.yaml",
    }
    weights, *planned = (shlex.split(command) for command in commands)
    subprocess.run([sys.executable, *weights[1:]], cwd=tmp_path, check=True)
    assert [command[:3] for command in planned] == [["python", "-m", "isosweep"]] * 2
    (asked, whole) = (command[3:] for command in planned)
    assert asked == [*whole, "mode=plan"]
    # As users start it.
    isosweep(*asked, cwd=tmp_path, fresh=True)
    (planned_as,) = (tmp_path / "sweeps").glob("*/plan.json")
    assert len(read(planned_as)["runs"]) == 12
    shutil.rmtree(planned_as.parent)
    isosweep(*whole, *SMALLER, cwd=tmp_path)
    (document,) = (tmp_path / "sweeps").glob("*/analysis/credit=partial/answer.json")
    assert read(document)["verdict"]
    assert (document.parent.parent / "report.html").is_file()
    runs = [read(file)["spec"] for file in (tmp_path / "sweeps" / "runs").glob("*/spec.json")]
    assert len(runs) == 4
    assert {run["model"]["name"] for run in runs} == {"ours"}
    assert {run["recipe"]["learning_rate"] for run in runs} == {2e-4}
    assert {run["task"]["custom"]["parameters"]["partial"] for run in runs} == {True, False}
    # A model of one's own can be an axis beside a packaged one.
    axes = ("+grid.axes.model=[ours,tiny]", "~grid.axes.credit", "sweep_dir=sweeps/models")
    experiment = ("--config-dir", "conf", "+experiment=partial_credit")
    isosweep(*experiment, "mode=plan", *axes, cwd=tmp_path)
    plan = read(tmp_path / "sweeps" / "models" / "plan.json")
    assert {run["axes"]["model"] for run in plan["runs"]} == {"ours", "tiny"}
    # A sweep keeps its settings: nothing of the directory is named again.
    kept = isosweep("mode=status", f"sweep_dir={document.parents[2]}", cwd=tmp_path)
    assert "4 done" in kept.stdout


def read(path: Path) -> JsonObject:
    document = read_json(path)
    assert document is not None, path
    return document
