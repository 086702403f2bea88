"""A sweep that is exported and imported has the same n*(C); of rewards alone, no surer one."""

import json
import math
from pathlib import Path
from typing import Any

import pandas
import pytest
from rich.console import Console

import isosweep
from isosweep.analysis.load import load_sweep
from isosweep.analysis.statistics.findings import Findings, find
from isosweep.config.hydra import config_of
from isosweep.errors import SettingError
from isosweep.modes.directory import read_sweep
from isosweep.modes.importing import import_runs
from isosweep.store.paths import SweepPaths
from tests.importing import logs

ANALYSIS = config_of(["mode=analyse"]).analysis
BUDGETS = "budget=[2e6,4e6,8e6,16e6,32e6]"


def findings(paths: SweepPaths) -> Findings:
    data = load_sweep(paths, ladder=(ANALYSIS.readings_per_decade, ANALYSIS.decades))
    return find(data, ANALYSIS)


def imported(tmp_path: Path, source: Path | str, *overrides: str) -> SweepPaths:
    where = tmp_path / "imported"
    typed = ["mode=import", f"from={source}", f"sweep_dir={where}", f"sweeps_dir={tmp_path}/s"]
    assert import_runs(config_of([*typed, BUDGETS, *overrides]), Console()) == 0
    return read_sweep(where).paths


def widths(found: Findings) -> list[float]:
    known = [each.interval for each in found.saturation.optima if each.interval is not None]
    return [math.log2(interval.high / interval.low) for interval in known]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[logs.Row], Findings]:
    paths = logs.direct(tmp_path_factory.mktemp("own"))
    return list(logs.rows_of(paths)), findings(paths)


def test_of_counts_n_star_is_the_same_to_the_digit(
    own: tuple[list[logs.Row], Findings], tmp_path: Path
) -> None:
    rows, direct = own
    logs.write_csv(tmp_path / "runs.csv", rows)
    again = findings(imported(tmp_path, tmp_path / "runs.csv"))
    assert again.saturation.optima == direct.saturation.optima
    assert again.saturation.verdict == direct.saturation.verdict


def rewards_only(rows: list[logs.Row]) -> list[logs.Row]:
    return [{k: v for k, v in row.items() if k not in ("successes", "samples")} for row in rows]


def as_csv(folder: Path, rows: list[logs.Row]) -> tuple[Path | str, list[str]]:
    logs.write_csv(folder / "a.csv", rewards_only(rows))
    return folder / "a.csv", []


def as_verl(folder: Path, rows: list[logs.Row]) -> tuple[Path | str, list[str]]:
    logs.write_verl(folder / "verl", rows)
    logs.write_runs(folder / "r.csv", rows, {row["run"]: f"{row['run']}.log" for row in rows})
    return folder / "verl", [f"import.runs={folder}/r.csv"]


def as_trl(folder: Path, rows: list[logs.Row]) -> tuple[Path | str, list[str]]:
    logs.write_trainer_states(folder / "trl", rows)
    logs.write_runs(folder / "r.csv", rows)
    return folder / "trl", [f"import.runs={folder}/r.csv"]


def as_chart(folder: Path, rows: list[logs.Row]) -> tuple[Path | str, list[str]]:
    """W&B's export of two charts."""
    frame = pandas.DataFrame(rows)
    wide = {}
    for metric in ("eval_reward", "flops"):
        table = frame.pivot_table(index="step", columns="run", values=metric)
        for run in table:
            wide[f"{run} - {metric}"] = wide[f"{run} - {metric}__MAX"] = table[run]
    chart = pandas.DataFrame(wide).reset_index(names="Step")
    chart.to_csv(folder / "chart.csv", index=False)
    logs.write_runs(folder / "r.csv", rows)
    return folder / "chart.csv", [f"import.runs={folder}/r.csv"]


def as_mlflow(folder: Path, rows: list[logs.Row]) -> tuple[Path | str, list[str]]:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param

    client = MlflowClient(tracking_uri=f"sqlite:///{folder}/m.db")
    experiment = client.create_experiment("ours")
    for name, own in logs.by_run(rows).items():
        run = client.create_run(experiment, run_name=name).info.run_id
        sizes = {"num_generations": own[0]["n"], "problems_per_batch": own[0]["B"]}
        params = [
            Param(key, str(value)) for key, value in {**sizes, "seed": own[0]["seed"]}.items()
        ]
        points = [
            Metric(key, row[key], 0, row["step"]) for row in own for key in ("eval_reward", "flops")
        ]
        client.log_batch(run, metrics=points, params=params)
    return folder / "m.db", []


def as_events(folder: Path, rows: list[logs.Row]) -> tuple[Path | str, list[str]]:
    pytest.importorskip("tensorboard")
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    for name, own in logs.by_run(rows).items():
        writer = tensorboard.SummaryWriter(folder / "tb" / name)
        for row in own:
            writer.add_scalar("eval/reward", row["eval_reward"], row["step"])
            writer.add_scalar("total_flops", row["flops"], row["step"])
        writer.close()
    logs.write_runs(folder / "r.csv", rows)
    return folder / "tb", [f"import.runs={folder}/r.csv"]


@pytest.mark.parametrize("export", [as_csv, as_verl, as_trl, as_chart, as_mlflow, as_events])
def test_of_rewards_n_star_is_the_same_and_no_surer(
    export: Any, own: tuple[list[logs.Row], Findings], tmp_path: Path
) -> None:
    rows, direct = own
    source, overrides = export(tmp_path, rows)
    paths = imported(tmp_path, source, *overrides)
    again = findings(paths)
    assert again.saturation.verdict == direct.saturation.verdict
    for now, before in zip(again.saturation.optima, direct.saturation.optima, strict=True):
        assert now.budget == before.budget
        assert now.interval is not None
        assert before.interval is not None
        # TensorBoard keeps single precision.
        assert now.interval.median == pytest.approx(before.interval.median, rel=0.02)
    for width, least in zip(widths(again), widths(direct), strict=True):
        assert width >= least * 0.99


def test_the_same_file_again_makes_the_same_runs(
    own: tuple[list[logs.Row], Findings], tmp_path: Path
) -> None:
    logs.write_csv(tmp_path / "runs.csv", own[0])
    paths = imported(tmp_path, tmp_path / "runs.csv")
    before = {path: path.stat().st_mtime_ns for path in paths.runs.rglob("*/records/*")}
    again = imported(tmp_path, tmp_path / "runs.csv")
    assert {path: path.stat().st_mtime_ns for path in again.runs.rglob("*/records/*")} == before


def test_a_frame_is_a_sweep_of_the_door(
    own: tuple[list[logs.Row], Findings], tmp_path: Path
) -> None:
    frame = pandas.DataFrame(own[0]).rename(columns={"n": "group"})
    with pytest.raises(SettingError, match=r"import\.columns\.n=null"):
        isosweep.from_frame(frame, tmp_path / "f")
    sweep = isosweep.from_frame(
        frame, tmp_path / "f", columns={"n": "group"}, sweeps_dir=str(tmp_path)
    )
    assert len(sweep.runs) == 12
    assert sweep.verdict.kind == own[1].saturation.verdict
    document = json.loads((tmp_path / "f" / "plan.json").read_text())
    assert document["kind"] == "imported"
    assert document["imported"]["columns"]["n"] == "group"
