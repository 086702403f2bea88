"""What is shown of a search: what it may cost, and what it has asked of each run."""

import json
import re
from pathlib import Path

from isosweep.modes.status import listed_sweep, sweep_status
from isosweep.modes.sweeps import StoredSweep, read_sweep, store_plan, sweep_paths
from isosweep.modes.tracking import sweep_overview
from isosweep.plan.cells import PlannedRun
from isosweep.plan.study import resolve
from isosweep.search.candidates import Decision, Step
from isosweep.search.study import SearchStudy
from tests.conftest import SMALL, make_config
from tests.modes.looked_after import ended, printed, terminal

SEARCH = (*SMALL, "budget=[6.4e9,1.28e10]", "search=frontier", "tracking=none")


def planned(sweeps: Path, *overrides: str) -> tuple[StoredSweep, SearchStudy]:
    """A searched sweep of which nothing was trained, and what its driver asks through."""
    study = resolve(make_config(*SEARCH, f"sweeps_dir={sweeps}", *overrides))
    paths = sweep_paths(study)
    store_plan(study, paths)
    return read_sweep(paths.root), SearchStudy(study.plan, paths)


def ask_first(sweep: StoredSweep, search: SearchStudy) -> PlannedRun:
    first = sweep.plan.runs[0]
    step = Step(run_id=first.run_id, milestone=6.4e9, compute=6.4e9, value=0.0, why="it is next")
    search.ask({first.run_id: first}, [step], {"compute": 0.0})
    return first


def standings_of(sweep: StoredSweep) -> tuple[str, dict[str, int]]:
    """How the first run stands by `mode=status`, and what it counts of all sweeps."""
    console = terminal()
    config = make_config("mode=status", f"sweep={sweep.paths.root}", "format=json")
    assert sweep_status(config, console) == 0
    status = json.loads(printed(console))
    assert status["counts"][status["runs"][0]["standing"]] == 1
    listed = listed_sweep(sweep.paths.root)
    return status["runs"][0]["standing"], {k: v for k, v in listed["counts"].items() if v}


def test_runs_that_a_search_has_ended_with_are_stopped(tmp_path: Path) -> None:
    sweep, search = planned(tmp_path)
    ended(sweep, share=0.5)
    first = ask_first(sweep, search)
    assert sweep_overview(sweep).stopped is None
    search.note(Decision(steps=(), considered=(), stop="nothing is worth it"), {"compute": 0.0})
    at_work = ("to extend", {"not begun": 1, "to extend": 1})
    assert standings_of(sweep) == at_work
    search.tell(search.asked[first.run_id], "PRUNED", "the search stopped")
    assert standings_of(sweep) == ("stopped", {"not begun": 1, "stopped": 1})
    assert sweep_overview(sweep).stopped == frozenset({first.run_id})
    console, only = (
        terminal(),
        make_config("mode=status", f"sweeps_dir={tmp_path}", "runs=[stopped]"),
    )
    assert sweep_status(only, console) == 0
    assert re.search(r"stopped .* chosen up to 6\.4e9", printed(console))
    assert "not begun" not in printed(console)
    assert re.search(
        r"search: 1 of 2 runs were chosen\n  it ended at .*: nothing", printed(console)
    )
