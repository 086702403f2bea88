"""`mode=advise` prints what is published, and a command that can be typed as it stands."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from isosweep.config.hydra import config_of
from isosweep.modes.dispatch import prepare
from isosweep.plan.study import resolve
from tests.conftest import make_config
from tests.modes.looked_after import printed, terminal

ASKED = ("model=qwen-1.5b", "budget=1e20")


def said(monkeypatch: pytest.MonkeyPatch, *overrides: str, multirun: bool = False) -> str:
    """What the command prints; of a multirun, that it was typed with several models."""
    typed = ["mode=advise", *overrides]
    if multirun:
        typed = ["-m", *(f"{t},tiny" if t.startswith("model=") else t for t in typed)]
    monkeypatch.setattr(sys, "argv", ["isosweep", *typed])
    console = terminal(250)
    assert prepare(make_config("mode=advise", *overrides))(console) == 0
    return printed(console)


def test_it_prints_the_answer_first_the_sources_and_a_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    text = said(monkeypatch, *ASKED)
    first, *_, last = text.strip().splitlines()
    assert re.match(r"\d published sources disagree by [\d.]+ doublings: n from \d+ \(", first)
    for shown in ("Playbook, easy, B = 32", "ScaleRL", "1.0 decades below", "4.93 times yours"):
        assert shown in " ".join(text.split())
    assert last.startswith("python -m isosweep model=qwen-1.5b budget=")
    assert resolve(config_of(["mode=plan", *shlex.split(last)[3:]])).plan.runs
    assert list(tmp_path.iterdir()) == []


def test_a_job_of_a_multirun_has_its_own_value_in_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "isosweep model=qwen-1.5b budget=" in said(monkeypatch, *ASKED, multirun=True)


def test_programs_get_json_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    document = json.loads(said(monkeypatch, *ASKED, "format=json"))
    assert document["version"] == 1
    (advice,) = document["advice"]
    assert "format" not in advice["sweep"]["command"]
    names = {each["name"] for each in document["sources"]}
    assert {each["name"] for each in advice["answers"]} == names
