"""A plan's page says what is trained, what it takes, and the command that launches it."""

import json
import re
import shlex
from pathlib import Path

import pytest

from isosweep.modes.plan_facts import plan_facts
from isosweep.plan.study import resolve
from tests.analysis.sweeps import paths_in
from tests.commands import in_process
from tests.conftest import make_config


def test_facts_are_those_of_the_plan(tmp_path: Path) -> None:
    axes = "grid.axes={model:[qwen-0.5b,qwen-1.5b]}"
    study = resolve(make_config("model=qwen-1.5b", "budget=1e20", axes))
    facts = plan_facts(study, paths_in(tmp_path), 4)
    assert (len(facts.model.split(", ")), facts.at_once) == (2, 4)
    assert facts.device_hours == study.device_hours
    longest = max(run.seconds or 0.0 for run in study.plan.runs) / 3600
    whole = sum(run.seconds or 0.0 for run in study.plan.runs) / 3600
    assert longest < facts.hours < whole
    alone = plan_facts(study, paths_in(tmp_path), None)
    assert alone.hours == pytest.approx(longest)
    assert alone.at_once == len(study.plan.runs)


def test_the_page_of_a_plan_has_the_command_that_launches_it(tmp_path: Path) -> None:
    in_process(("mode=plan", "name=mine"), tmp_path)
    (page,) = tmp_path.glob("sweeps/*/plan.html")
    text = page.read_text()
    data = json.loads(re.findall(r'id="plan">(.*?)</script>', text, re.DOTALL)[0])
    *python, mode, where = shlex.split(data["facts"]["command"])
    assert (python, mode) == (["python", "-m", "isosweep"], "mode=resume")
    assert Path(where.removeprefix("sweep_dir=").strip("'")) == page.parent
    assert data["facts"]["lines"][0].startswith("can find")
