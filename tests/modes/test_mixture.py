"""The command line with mixtures: docs/mixtures.md's are planned, a part is analysed as a set."""

import re
import shlex
from pathlib import Path

import pytest

from isosweep.files import JsonObject, read_json
from tests.commands import in_process
from tests.conftest import isosweep

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "mixtures.md").read_text(encoding="utf-8")


def plan_in(directory: Path) -> JsonObject:
    (plan,) = directory.glob("sweeps/*/plan.json")
    document = read_json(plan)
    assert document is not None
    return document


def parts_of(plan: JsonObject) -> list[tuple[str, int]]:
    return [(part["name"], part["problems"]) for part in plan["evaluation"]["sets"] if part["part"]]


def test_the_page_s_command_plans_a_mixture(tmp_path: Path) -> None:
    (command,) = re.findall(r"^    python -m isosweep (.*)$", PAGE, re.MULTILINE)
    in_process(("mode=plan", *shlex.split(command)), tmp_path)
    plan = plan_in(tmp_path)
    assert parts_of(plan) == [("four", 256), ("six", 256)]
    assert plan["cost_models"][0]["completion_tokens"] == 0.75 * 7 + 0.25 * 5


def test_the_page_s_file_is_a_mixture_of_one_s_own(tmp_path: Path) -> None:
    (content,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    file = tmp_path / "conf" / "task" / "sums_and_games.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(content, encoding="utf-8")
    typed = ("task=sums_and_games", "task.mixture.parts.sums.math.split=test")
    asked = ("mode=plan", "model=qwen-0.5b", "budget=1e18", *typed)
    in_process(("--config-dir", "conf", *asked), tmp_path)
    assert parts_of(plan_in(tmp_path)) == [("games", 256), ("sums", 256)]


@pytest.mark.long
def test_a_mixture_is_trained_and_analysed_by_its_parts(tmp_path: Path) -> None:
    small = (
        *("budget=[256,512]", "budget_unit=rollouts", "grid.num_generations=[4,8]"),
        *("grid.seeds=[0]", "grid.tolerance=0.1", "task.num_eval_problems=32"),
        *("analysis.formats=[]", "tracking=none"),
    )
    done = isosweep("task=sort_mix", *small, cwd=tmp_path)
    assert "of the parts long (16 x 8), short (16 x 8)" in " ".join(done.stdout.split())
    isosweep("mode=analyse", "analysis.evaluation_set=short", cwd=tmp_path)
    (report,) = tmp_path.glob("sweeps/*/analysis/set=short/report.html")
    assert "short" in report.read_text(encoding="utf-8")
