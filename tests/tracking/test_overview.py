"""What a sweep's own run in MLflow says of it, and how the pages are told to show it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from isosweep.tracking.mlflow import MlflowBackend
from isosweep.tracking.overview import Overview, Problems, Table
from isosweep.tracking.tags import run_name, sweep_run_name
from isosweep.tracking.view import budget_metric, experiment_tags, link
from tests.tracking.sweeps import (
    EVALUATION_S,
    START,
    Sweep,
    make_plan,
    set_state,
    start,
    write_steps,
)

pytestmark = pytest.mark.mlflow


def overview_of(sweep: Sweep, reward: float, when: float) -> Overview:
    run = sweep.runs[0].run_id
    figure = sweep.root / "reward.png"
    Image.new("RGB", (1360, 880)).save(figure)
    return Overview(
        note="**saturated.** The best n has stopped growing.",
        figure=figure,
        tags={None: {"verdict": "saturated", "best_n": "2"}, run: {"on_frontier": "true"}},
        metrics={run: {"reward_1_2e10": reward}},
        unix_time=when,
        tables={"cells": Table(columns=["n", "reward"], rows=[[2, reward], [4, None]])},
        problems=(Problems("sort held out", "evaluation", 64, {"seed": 0}),),
    )


def finished(sweep: Sweep, overview: Overview) -> Any:
    tracker = sweep.tracker(overview)
    tracker.sync()
    tracker.finish(None, [], None)
    return sweep.stored()


def test_what_came_of_a_sweep_is_in_its_run_and_follows_the_next_analysis(sweep: Sweep) -> None:
    first = finished(sweep, overview_of(sweep, 0.25, START))
    parent = first["parent"]
    assert parent.info.run_name == "all of it's a sweep"
    assert parent.info.start_time == (START - EVALUATION_S) * 1000
    assert parent.data.tags["verdict"] == "saturated"
    note = parent.data.tags["mlflow.note.content"]
    assert note.startswith("**saturated.** The best n")
    assert f"run_uuid={parent.info.run_id}" in note
    small = sweep.client().download_artifacts(parent.info.run_id, "figures/small.png")
    with Image.open(small) as image:
        assert image.size == (720, 466)
    for reward in (0.25, 0.2):
        stored = finished(sweep, overview_of(sweep, reward, START + 9))
        child = stored[sweep.runs[0].run_id].data
        assert child.tags["on_frontier"] == "true"
        assert child.metrics["reward_1_2e10"] == reward
        # Rows are replaced; `log_table` would have added them.
        path = sweep.client().download_artifacts(parent.info.run_id, "tables/cells.json")
        assert json.loads(Path(path).read_text())["data"] == [[2, reward], [4, None]]
        (held_out,) = stored["parent"].inputs.dataset_inputs
        assert held_out.dataset.name == "sort held out"
        assert [tag.value for tag in held_out.tags] == ["evaluation"]
    histories = sweep.histories()
    rewards = [value for _, _, value in histories[sweep.runs[0].run_id, "reward_1_2e10"]]
    assert sorted(rewards) == [0.2, 0.25]


def test_a_run_that_a_search_has_ended_with_waits_for_nothing(sweep: Sweep) -> None:
    trained = sweep.runs[0]
    start(trained)
    write_steps(trained, range(21))
    set_state(trained, "finished", step=20)
    searched = frozenset({trained.run_id})
    for stopped, status, shown in (
        (None, "SCHEDULED", "to extend"),
        (searched, "FINISHED", "stopped"),
        (None, "SCHEDULED", "to extend"),
    ):
        stored = finished(sweep, Overview(stopped=stopped))
        assert stored["parent"].info.status == ("FINISHED" if stopped else "KILLED")
        child = stored[trained.run_id]
        assert (child.info.status, child.data.tags["status"]) == (status, shown)


def test_the_experiment_has_the_view_that_the_link_names(sweep: Sweep) -> None:
    sweep.tracker().sync()
    client = sweep.client()
    experiment = client.get_experiment_by_name(sweep.config.experiment)
    assert experiment.tags.items() >= experiment_tags(sweep.plan).items()
    url = link("http://host:5000/", experiment.experiment_id, sweep.plan)
    key = url.rpartition("viewStateShareKey=")[2]
    state = json.loads(experiment.tags[f"mlflow.sharedViewState.{key}"])
    assert url.startswith("http://host:5000/#/experiments/1/runs?workflowType=machine_learning&")
    columns = state["selectedColumns"]
    assert {"metrics.`reward_1_2e10`", "metrics.`eval_min`"} <= {*columns}
    assert "metrics.`dollars`" not in columns
    assert state["columnOrder"][-len(columns) + 1 :] == columns[1:]
    assert state["columnWidths"].keys() == {*state["columnOrder"]}
    assert client.search_runs([experiment.experiment_id], state["searchFilter"])
    # What the user has chosen since stays.
    client.set_experiment_tag(experiment.experiment_id, "mlflow.experimentKind", "genai")
    sweep.tracker().sync()
    kind = client.get_experiment(experiment.experiment_id).tags["mlflow.experimentKind"]
    assert kind == "genai"


def test_runs_of_one_n_have_one_color(untracked: Sweep, empty_store: Path) -> None:
    shutil.copy(empty_store, untracked.root / "mlflow.db")
    tracker = untracked.tracker()
    tracker.backend = MlflowBackend(
        untracked.config, untracked.paths, untracked.plan, {2: "#440154", 4: "#a0b21a"}
    )
    tracker.sync()
    assert untracked.child().data.tags["mlflow.runColor"] == "#440154"
    assert "mlflow.runColor" not in untracked.stored()["parent"].data.tags


def test_names_sort_by_n_and_views_fit_into_a_tag() -> None:
    plan = make_plan(10)
    names = [sweep_run_name("it"), *(run_name(run, plan) for run in plan.runs)]
    assert names == sorted(names)
    assert (names[1], names[-1]) == ("n=0002 seed=0", "n=1024 seed=0")
    other = replace(plan.runs[0], problems_per_batch=16, axes={"recipe.beta": 0.1})
    several = replace(plan, runs=(*plan.runs, other))
    assert run_name(plan.runs[0], several) == "n=0002 B=04 seed=0"
    assert run_name(other, several) == "n=0002 B=16 seed=0 beta=0.1"
    budgets = [8.1e10, 1.62e11, 3.24e11]
    rewards = [budget_metric(budget, budgets) for budget in budgets]
    assert rewards == ["reward_1_8.1e10", "reward_2_1.62e11", "reward_3_3.24e11"]
    many = [budget_metric(budget, range(1, 11)) for budget in range(1, 11)]
    assert many == sorted(many)
    assert max(len(value) for value in experiment_tags(plan).values()) < 5000
