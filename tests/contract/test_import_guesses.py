"""A guess that the table contradicts is asked about, and what is not read is named."""

import json
import math
from pathlib import Path

import pandas
import pytest

import isosweep as library
from tests.contract import logs
from tests.contract.surface import isosweep, refused, write_csv

ALL = {key: list(logs.STEPS) for key in logs.RUNS}


def long_table(key: str, value: str, *, by_metric: bool = False) -> pandas.DataFrame:
    """A table with a row for each metric of each step."""
    frame = pandas.DataFrame(
        [
            {
                "run_id": f"r{n}_{seed}",
                "n": n,
                "B": 64,
                "seed": seed,
                key: name,
                value: of,
                "step": s,
            }
            for n, seed in logs.RUNS
            for s in logs.STEPS
            for name, of in (
                ("eval/reward", logs.reward(n, seed, s)),
                ("train/clip_fraction", 0.1),
                ("tokens", 64 * n * s * 100),
            )
        ]
    )
    return frame.sort_values([key, "run_id"], kind="stable") if by_metric else frame


@pytest.mark.parametrize(
    ("key", "value"),
    [("key", "value"), ("tag", "value"), ("Metric Name", "_value"), ("name", "Value")],
)
@pytest.mark.parametrize("by_metric", [True, False])
def test_a_long_table_is_read_by_its_metrics(
    tmp_path: Path, key: str, value: str, by_metric: bool
) -> None:
    frame = long_table(key, value, by_metric=by_metric)
    frame.to_csv(tmp_path / "a.csv", index=False)
    _, records = logs.imported(tmp_path, "import.files=a.csv")
    again = library.from_frame(frame, tmp_path / "f", sweeps_dir=str(tmp_path / "s")).records
    for read in (records, again):
        assert logs.steps_of(read) == ALL
        logs.require_rewards(read)
        assert read["spent"].tolist() == (6400 * read["n"] * read["step"]).tolist()


def test_the_values_of_all_metrics_are_no_reward(tmp_path: Path) -> None:
    long_table("key", "value").to_csv(tmp_path / "a.csv", index=False)
    said = refused(
        "mode=import", "import.files=a.csv", "import.columns={reward:value}", cwd=tmp_path
    )
    assert "Nearest choice that works: import.columns={reward:eval/reward}" in said
    assert "no column is called so; there are run_id" in said
    assert "eval/reward, train/clip_fraction" in said
    with pytest.raises(library.IsosweepError, match="eval/reward, train/clip_fraction"):
        library.from_frame(long_table("tag", "value"), tmp_path / "f", columns={"reward": "value"})


def chart(axis: str, scale: int) -> pandas.DataFrame:
    """W&B's export of a chart."""
    columns = {
        f"n{n}_s{seed} - eval/reward{end}": [logs.reward(n, seed, s) for s in logs.STEPS]
        for n, seed in logs.RUNS
        for end in ("", "__MIN", "__MAX")
    }
    return pandas.DataFrame({axis: [scale * s for s in logs.STEPS], **columns})


@pytest.mark.parametrize(
    ("axis", "scale"),
    [("Relative Time (Process)", 37), ("Wall Time", 37), ("_timestamp", 37), ("train/epoch", 1)],
)
def test_the_axis_of_a_chart_over_time_is_not_taken_for_steps(
    tmp_path: Path, axis: str, scale: int
) -> None:
    names = {(n, seed): f"n{n}_s{seed}" for n, seed in logs.RUNS}
    table = logs.write_runs_table(tmp_path / "runs.csv", names)
    chart(axis, scale).to_csv(tmp_path / "a.csv", index=False)
    asked = ("mode=import", "import.files=a.csv", f"import.runs={table}")
    said = refused(*asked, cwd=tmp_path)
    assert "no column has a usual name of optimiser steps" in said
    assert axis in said
    if scale > 1:
        said = refused(*asked, f"import.columns={{step:'{axis}'}}", cwd=tmp_path)
        assert f"import.columns.step={axis}: has a time in seconds by its name" in said
    chart("Step", 1).to_csv(tmp_path / "b.csv", index=False)
    _, records = logs.imported(tmp_path, "import.files=b.csv", f"import.runs={table}")
    assert logs.steps_of(records) == ALL
    logs.require_rewards(records)


@pytest.mark.parametrize(
    "column", ["_runtime", "time", "seconds", "wall_time", "time_total_s", "device_seconds"]
)
@pytest.mark.parametrize("unit", ["device_hours", "tokens"])
def test_seconds_are_not_taken_for_compute(tmp_path: Path, column: str, unit: str) -> None:
    own = [{**row, column: 50_000 * row["step"]} for key in logs.RUNS for row in logs.rows(*key)]
    write_csv(tmp_path / "a.csv", own)
    asked = (
        "mode=import",
        "import.files=a.csv",
        f"import.columns={{compute:{column}}}",
        f"budget_unit={unit}",
    )
    assert f"import.columns.compute={column}: has a time in seconds" in refused(
        *asked, cwd=tmp_path
    )


@pytest.mark.parametrize("scale", [1, 1000])
def test_a_clock_is_not_taken_for_steps(tmp_path: Path, scale: int) -> None:
    own = [
        {**row, "step": scale * (1_700_000_000 + row["step"])}
        for key in logs.RUNS
        for row in logs.rows(*key)
    ]
    write_csv(tmp_path / "a.csv", own)
    assert "a time in seconds" in refused("mode=import", "import.files=a.csv", cwd=tmp_path)


# What a reward is from a step on, and how its rows look.
NO_NUMBERS = {
    "NaN": math.nan,
    "infinite": math.inf,
    "null": None,
    "missing": "missing",
    "text": "nan",
}


@pytest.mark.parametrize("kind", NO_NUMBERS)
@pytest.mark.parametrize("trained", [True, False])
def test_rewards_that_are_no_numbers_are_named(tmp_path: Path, kind: str, trained: bool) -> None:
    """`trained`: with rows of training at every other step, which have no reward either."""
    for n, seed in logs.RUNS:
        own = logs.rows(n, seed)
        if (n, seed) == (16, 1):
            for row in own[6:]:
                row["eval_reward"] = NO_NUMBERS[kind]
                if kind == "missing":
                    del row["eval_reward"]
        if trained:
            sizes = {"n": n, "B": 64, "seed": seed}
            own += [{"step": s, **sizes, "loss": 0.1} for s in range(101) if s % 10]
            own.sort(key=lambda row: row["step"])
        logs.write_lines(tmp_path / "logs" / f"n{n}_s{seed}.jsonl", own)
    printed, records = logs.imported(tmp_path, "import.files=logs")
    assert logs.steps_of(records)[16, 1] == [*range(0, 60, 10)]
    note = "1 run with evaluations that have no number as reward (n16_s1.jsonl from step 60)"
    assert note in printed
    plan = json.loads((tmp_path / "sweeps" / "x" / "plan.json").read_text())
    assert "no number" in {each["kind"] for each in plan["imported"]["notes"]}


def test_rows_that_were_to_have_no_reward_are_no_lost_evaluations(tmp_path: Path) -> None:
    """Training at every step, evaluations of each n at other distances, and one more at the end."""
    for n, seed in logs.RUNS:
        evaluated = [*range(0, 100, n), 97]
        sizes = {"n": n, "B": 64, "seed": seed}
        own = [
            {"step": s, **sizes}
            | ({"eval_reward": logs.reward(n, seed, s)} if s in evaluated else {"loss": 0.1})
            for s in range(101)
        ]
        logs.write_lines(tmp_path / "logs" / f"n{n}_s{seed}.jsonl", own)
    assert "no number" not in logs.imported(tmp_path, "import.files=logs")[0]


def test_files_of_other_kinds_are_named(tmp_path: Path) -> None:
    source = tmp_path / "logs"
    for n, seed in logs.RUNS:
        if n == 16:
            logs.write_lines(source / f"n{n}_s{seed}.jsonl", logs.rows(n, seed))
        else:
            source.mkdir(exist_ok=True)
            write_csv(source / f"n{n}_s{seed}.csv", logs.rows(n, seed))
    printed, records = logs.imported(tmp_path, "import.files=logs")
    note = "2 files of other kinds left out (read as csv, not jsonl: n16_s0.jsonl, n16_s1.jsonl)"
    assert note in printed
    assert sorted(logs.steps_of(records)) == [(4, 0), (4, 1), (8, 0), (8, 1)]
    files = ",".join(sorted(str(path) for path in source.iterdir()))
    _, records = logs.imported(tmp_path, f"import.files=[{files}]", name="both")
    assert logs.steps_of(records) == ALL


def test_empty_files_among_others_are_left_out_and_counted(tmp_path: Path) -> None:
    logs.write_csv_logs(tmp_path / "logs")
    (tmp_path / "logs" / "n4_s2.csv").write_text("")
    (tmp_path / "logs" / "n8_s2.csv").write_text("step,n,B,seed,eval_reward\n")
    printed, records = logs.imported(tmp_path, "import.files=logs")
    assert logs.steps_of(records) == ALL
    assert "2 files without rows left out (logs/n4_s2.csv)" in printed


def test_a_refusal_says_which_logs_were_not_read(tmp_path: Path) -> None:
    logs.write_json_lines(tmp_path / "logs")
    write_csv(tmp_path / "logs" / "notes.csv", [{"who": "a", "what": "b"}])
    done = isosweep("mode=import", "import.files=logs", cwd=tmp_path, check=False)
    assert done.returncode == 2
    said = " ".join((done.stdout + done.stderr).split())
    assert "6 files of other kinds left out (read as csv, not jsonl: n16_s0.jsonl" in said


def test_runs_in_two_directories_of_event_files_are_named(tmp_path: Path) -> None:
    for n, seed in logs.RUNS:
        where = tmp_path / "logs" / f"n{n}_s{seed}"
        points = [(row["step"], row["eval_reward"]) for row in logs.rows(n, seed)]
        logs.write_events(where / "validation", {"eval_reward": points})
        tokens = [(s, 6400.0 * n * s) for s in logs.STEPS]
        logs.write_events(where / "train", {"num_tokens": tokens})
    names = [f"n{n}_s{seed}/{part}" for n, seed in logs.RUNS for part in ("train", "validation")]
    own = [{"run": name, "n": int(name[1:].partition("_")[0]), "B": 64} for name in names]
    table = write_csv(tmp_path / "runs.csv", own)
    asked = ("import.files=logs", f"import.runs={table}")
    said = refused("mode=import", *asked, "budget_unit=tokens", cwd=tmp_path)
    assert "6 runs have rewards and no compute (n16_s0/validation)" in said
    assert "6 have compute and no two rewards (n16_s0/train)" in said
    # What the refusal recommends.
    _, records = logs.imported(tmp_path, *asked, "budget_unit=rollouts")
    assert len(logs.steps_of(records)) == len(logs.RUNS)


@pytest.mark.parametrize("layout", ["lines", "list"])
@pytest.mark.parametrize("reader", [(), ("import.reader=jsonl",)])
def test_json_lines_in_files_called_json_are_read(
    tmp_path: Path, layout: str, reader: tuple[str, ...]
) -> None:
    for n, seed in logs.RUNS:
        where = tmp_path / "logs" / f"n{n}_s{seed}"
        logs.write_lines(where / "result.json", logs.rows(n, seed))
        if layout == "list":
            (where / "result.json").write_text(json.dumps(logs.rows(n, seed), indent=1))
        (where / "params.json").write_text(json.dumps({"n": n, "model": {"lr": 1e-6}}))
        (where / "config.json").write_text(json.dumps({"n": n, "model": {"lr": 1e-6}}, indent=1))
    _, records = logs.imported(tmp_path, "import.files=logs", *reader)
    assert logs.steps_of(records) == ALL
    if layout == "list":
        torn = where / "result.json"
        torn.write_text(torn.read_text()[:-30])
        said = refused("mode=import", "import.files=logs", *reader, cwd=tmp_path)
        assert "result.json: cannot be read as JSON: " in said


def test_a_directory_that_no_reader_fits_is_refused_with_its_files(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.json").write_text("{}")
    assert "it has a.json" in refused("mode=import", "import.files=logs", cwd=tmp_path)
