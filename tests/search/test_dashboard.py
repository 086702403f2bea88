"""Optuna's own dashboard opens the journal of a search."""

import importlib.util
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from isosweep.config.search import SearchConfig
from isosweep.search.steps import Step
from isosweep.search.study import SearchStudy, study_name
from isosweep.store.paths import SweepPaths
from tests.conftest import SMALL, make_config, missing, plan_of
from tests.runs import wait_for

# What the command `optuna-dashboard` is, also where its package is not in this environment's bin.
COMMAND = "from optuna_dashboard._cli import main; main()"


@pytest.fixture
def journal(tmp_path: Path) -> tuple[str, Path]:
    """A search that has asked for two runs, one of which has a reward: its name and its file."""
    plan = plan_of(make_config(*SMALL, "budget=[6.4e9,1.28e10]"))
    paths = SweepPaths(tmp_path / "sweep", tmp_path / "runs")
    paths.root.mkdir()
    study = SearchStudy(plan, paths, SearchConfig(name="frontier", kind="frontier"))
    steps = [
        Step(run_id=run.run_id, milestone=6.4e9, compute=6.4e9, value=0.01, why="it is next")
        for run in plan.runs
    ]
    study.ask({run.run_id: run for run in plan.runs}, steps, {"cells": 0})
    first = study.asked[plan.runs[0].run_id]
    study.saw(first, {0: 0.25}, 6.4e9)
    study.tell(first, "PRUNED", "the search stopped")
    return study_name(plan, paths), paths.search


def answer(url: str) -> Any:
    try:
        with urlopen(url, timeout=10) as response:
            return json.load(response)
    except URLError:
        return None


def test_the_dashboard_shows_a_search_and_its_trials(journal: tuple[str, Path]) -> None:
    if importlib.util.find_spec("optuna_dashboard") is None:
        missing("dashboard", "optuna-dashboard is not installed: the extra dev has it")
    name, file = journal
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", COMMAND, str(file), "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        api = f"http://127.0.0.1:{port}/api/studies"
        wait_for(lambda: answer(api) is not None or server.poll() is not None)
        (study,) = answer(api)["study_summaries"]
        assert study["study_name"] == name
        first, second = answer(f"{api}/{study['study_id']}?after=0")["trials"]
        assert (first["state"], first["values"]) == ("Pruned", [0.25])
        assert first["intermediate_values"] == [{"step": 0, "value": 0.25}]
        assert second["state"] == "Running"
        assert {p["name"]: p["param_external_value"] for p in second["params"]} == {
            "n": "4",
            "B": "4",
            "seed": "0",
        }
        (why,) = (a["value"] for a in first["user_attrs"] if a["key"] == "ended")
        assert "the search stopped" in why
    finally:
        server.kill()
        server.wait()
