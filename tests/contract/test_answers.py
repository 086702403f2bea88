"""What is concluded rests on held-out rewards alone, and an edge of the grid is no optimum."""

import json
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.surface import (
    answer_of,
    conclusions,
    import_rows,
    isosweep,
    records_of,
    runs_of,
)

NS = (4, 8, 16, 32)


def rows(
    held_out: Callable[[float, float], float], **further: Callable[[float, float], float]
) -> Iterator[dict[str, object]]:
    """Runs of three seeds; rewards are functions of log2 n and of log10 rollouts."""
    for n in NS:
        for seed in range(3):
            for k in range(12):
                spent = 1e4 * 2 ** (k / 2)
                at = math.log2(n), math.log10(spent / 1e4)
                luck = 0.003 * math.sin(17 * n + 5 * seed + 3 * k)
                row: dict[str, object] = {"n": n, "B": 64, "seed": seed, "rollouts": round(spent)}
                row["eval_reward"] = round(held_out(*at) + luck, 5)
                yield row | {name: round(reward(*at), 5) for name, reward in further.items()}


def analysed(cwd: Path) -> dict[str, Any]:
    isosweep("mode=analyse", "tracking=none", cwd=cwd)
    (sweep,) = (path.parent for path in cwd.glob("sweeps/*/plan.json"))
    return answer_of(sweep)


def test_rewards_of_training_change_no_answer(straight: Path, tmp_path: Path) -> None:
    shutil.copytree(straight / "sweeps", tmp_path / "sweeps")
    answer = analysed(tmp_path)
    assert answer["use"]["num_generations"] == 4
    # It is not established by two n of one seed, and said.
    assert answer["verdict"] == "not identified"
    for run in runs_of(tmp_path):
        log = run.root / "metrics" / "1.jsonl"
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        better = float("-n2-" in run.run_id)
        log.write_text("".join(json.dumps(each | {"reward": better}) + "\n" for each in lines))
    assert conclusions(analysed(tmp_path)) == conclusions(answer)
    for run in runs_of(tmp_path):
        log = run.root / "records" / "1.jsonl"
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        for line in lines:
            if line.get("step", 0) > 30 and "-n2-" in run.run_id:
                line["successes"] = [2] * len(line["successes"])
        log.write_text("".join(json.dumps(each) + "\n" for each in lines))
    assert analysed(tmp_path)["use"]["num_generations"] == 2


def test_of_a_table_the_held_out_rewards_are_read(tmp_path: Path) -> None:
    def peak(n: float, spent: float) -> float:
        return 0.3 + 0.1 * spent - 0.03 * (n - 4) ** 2

    plain = import_rows(tmp_path, rows(peak), name="plain", quantity="best")[1]
    train = {"reward": lambda n, spent: 0.9 - 0.1 * n}
    both = import_rows(tmp_path, rows(peak, **train), name="both", quantity="best")[1]
    assert {at["best"] for at in both["optima"]} == {16}
    assert conclusions(both) == conclusions(plain)


@pytest.mark.parametrize(
    ("slope", "edge", "side", "marked"),
    [(0.04, 32, "above", "32+"), (-0.04, 4, "below", "4 or less")],
)
def test_no_n_at_the_edge_of_the_grid_is_called_an_optimum(
    slope: float, edge: int, side: str, marked: str, tmp_path: Path
) -> None:
    table = rows(lambda n, spent: 0.3 + 0.05 * spent + slope * n)
    said, answer = import_rows(tmp_path, table, quantity="best")
    assert {at["best"] for at in answer["optima"]} == {edge}
    assert all(at["n_star"][f"open_{side}"] for at in answer["optima"])
    assert answer["verdict"] == "not identified"
    assert (answer["reason"]["kind"], answer["reason"]["edge"]) == ("edge", edge)
    assert marked in said


def test_sweeps_are_set_side_by_side(tmp_path: Path) -> None:
    for name, gain in (("weak", 0.0), ("strong", 0.2)):
        table = rows(lambda n, spent, gain=gain: 0.3 + gain + 0.1 * spent - 0.03 * (n - 4) ** 2)  # type: ignore[misc]
        import_rows(tmp_path, table, name=name)
    done = isosweep("mode=compare", "sweep=[weak,strong]", cwd=tmp_path)
    (document,) = tmp_path.rglob("comparison.json")
    compared = json.loads(document.read_text())
    assert compared["verdicts"].keys() == {"weak", "strong"}
    assert "strong" in done.stdout
    best = [row for row in compared["frontiers"] if row["entry"] == "strong"]
    assert all(row["better"] > 0.95 for row in best)


@pytest.mark.mlflow
def test_mlflow_is_made_again_from_files(straight: Path, tmp_path: Path) -> None:
    shutil.copytree(straight / "sweeps", tmp_path / "sweeps")
    view = ("mode=analyse", "tracking=mlflow")
    isosweep(*view, cwd=tmp_path)
    stored = _stored(tmp_path)
    (tmp_path / "sweeps" / "mlflow.db").unlink()
    shutil.rmtree(tmp_path / "sweeps" / "mlartifacts")
    isosweep(*view, cwd=tmp_path)
    assert _stored(tmp_path) == stored
    for name, taken in records_of(tmp_path).items():
        rewards = [
            (step, sum(record["successes"]) / (2 * len(record["successes"])))
            for step, record in taken.items()
        ]
        assert stored[name]["heldout/avg_at_k"] == rewards
    assert records_of(tmp_path) == records_of(straight)


def _stored(cwd: Path) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """Every history of MLflow's, by run and metric, for who has MLflow alone."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{cwd}/sweeps/mlflow.db")
    experiments = [each.experiment_id for each in client.search_experiments()]
    return {
        run.data.tags.get("isosweep.run_id", "sweep"): {
            key: [(at.step, at.value) for at in client.get_metric_history(run.info.run_id, key)]
            for key in run.data.metrics
        }
        for run in client.search_runs(experiments)
    }
