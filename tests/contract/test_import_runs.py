"""Which rows are one training: decided by source and id, and by what a log repeats."""

import json
from pathlib import Path

import pandas
import pytest

import isosweep as library
from tests.contract import logs
from tests.contract.surface import isosweep, refused, write_csv

ALL = {key: list(logs.STEPS) for key in logs.RUNS}


def by_step(records: pandas.DataFrame, n: int, seed: int = 0) -> dict[int, float]:
    own = records[(records["n"] == n) & (records["seed"] == seed)]
    return dict(zip(own["step"].tolist(), own["reward"].tolist(), strict=True))


@pytest.mark.parametrize("names", [("seed0", "seed1"), ("a/logs", "b/logs"), ("logs", "logs/b")])
def test_runs_of_two_sources_are_apart_whatever_they_are_called(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    for seed, name in enumerate(names):
        (tmp_path / name).mkdir(parents=True)
        for n in (4, 8, 16):
            own = [{k: v for k, v in row.items() if k != "seed"} for row in logs.rows(n, seed)]
            write_csv(tmp_path / name / f"n{n}.csv", own)
    _, records = logs.imported(tmp_path, f"import.files=[{names[0]},{names[1]}]")
    assert sorted(logs.steps_of(records)) == logs.RUNS
    assert logs.steps_of(records) == ALL


def test_a_name_in_two_tables_is_two_runs_and_a_file_given_twice_is_one(tmp_path: Path) -> None:
    for seed in (0, 1):
        own = [{"run": f"n{n}", **row} for n in (4, 8, 16) for row in logs.rows(n, seed)]
        write_csv(tmp_path / f"seed{seed}.csv", own)
    (tmp_path / "latest.csv").symlink_to("seed1.csv")
    _, records = logs.imported(
        tmp_path, "import.files=[seed0.csv,seed1.csv,./seed0.csv,latest.csv]"
    )
    assert logs.steps_of(records) == ALL


@pytest.mark.parametrize("state", ["top", "checkpoint"])
def test_of_several_states_of_a_trainer_the_one_with_the_most_steps_is_read(
    tmp_path: Path, state: str
) -> None:
    for n, seed in logs.RUNS:
        history = [
            {"step": row["step"], "eval_reward": row["eval_reward"]} for row in logs.rows(n, seed)
        ]
        run = tmp_path / "logs" / f"n{n}_s{seed}"
        newest = run if state == "top" else run / "checkpoint-100"
        logs.write_state(run / "checkpoint-9", history[:1])
        logs.write_state(run / "checkpoint-80", history[:9])
        logs.write_state(newest, history)
        if state == "checkpoint":
            # Written at the end of a first training of 30 steps, which was then gone on with.
            older = {"global_step": 30, "log_history": history[:4]}
            (run / "trainer_state.json").write_text(json.dumps(older))
            # The process was killed while it wrote its last checkpoint.
            (run / "checkpoint-110").mkdir()
            (run / "checkpoint-110" / "trainer_state.json").write_text('{"global_step": 110, "log')
    table = logs.write_runs_table(
        tmp_path / "runs.csv", {(n, seed): f"n{n}_s{seed}" for n, seed in logs.RUNS}
    )
    _, records = logs.imported(tmp_path, "import.files=logs", f"import.runs={table}")
    assert logs.steps_of(records) == ALL


@pytest.mark.parametrize("kind", ["trainer_state", "tensorboard"])
def test_files_of_one_run_that_are_given_one_by_one_are_one_run(tmp_path: Path, kind: str) -> None:
    names = {}
    for n, seed in logs.RUNS:
        where = Path("logs") / f"n{n}_s{seed}"
        names[n, seed] = str(where)
        for until in (6, 11):
            own = logs.rows(n, seed)[:until]
            if kind == "trainer_state":
                history = [{"step": row["step"], "eval_reward": row["eval_reward"]} for row in own]
                logs.write_state(tmp_path / where / f"checkpoint-{until}", history)
            else:
                points = [(row["step"], row["eval_reward"]) for row in own[until // 11 * 6 :]]
                logs.write_events(tmp_path / where, {"eval/reward": points})
    table = logs.write_runs_table(tmp_path / "runs.csv", names)
    files = [
        str(path.relative_to(tmp_path)) for path in tmp_path.glob("logs/**/*") if path.is_file()
    ]
    assert len(files) == 2 * len(logs.RUNS)
    _, records = logs.imported(
        tmp_path, f"import.files=[{','.join(sorted(files))}]", f"import.runs={table}"
    )
    assert logs.steps_of(records) == ALL


# Steps of a first start and of a second one in the same log, and which rows count.
STARTS: dict[str, tuple[list[int], list[int], list[int]]] = {
    "begun again": ([*range(0, 101, 10)], [*range(0, 41, 10)], [*range(0, 41, 10)]),
    "begun again at 1": ([*range(1, 101)], [*range(1, 41)], [*range(1, 41)]),
    "at other steps": ([*range(0, 101, 20)], [5, 15, 25, 35], [0, 5, 15, 25, 35]),
    "from a checkpoint": ([*range(0, 101, 10)], [50, 60, 70], [*range(0, 80, 10)]),
}


@pytest.mark.parametrize("case", STARTS)
def test_rows_of_a_later_start_replace_those_of_an_earlier_one(tmp_path: Path, case: str) -> None:
    first, second, counted = STARTS[case]
    for n, seed in logs.RUNS:
        again = [{**row, "eval_reward": 0.15} for row in logs.rows(n, seed, second)]
        logs.write_lines(
            tmp_path / "logs" / f"n{n}_s{seed}.jsonl", [*logs.rows(n, seed, first), *again]
        )
    printed, records = logs.imported(tmp_path, "import.files=logs")
    assert logs.steps_of(records) == dict.fromkeys(logs.RUNS, counted)
    rewards = by_step(records, 8)
    assert all((rewards[step] == 0.15) == (step in second) for step in counted)
    note = f"6 runs went back to an earlier step (n16_s0.jsonl from step 100 to {second[0]}"
    shown = note if second[0] in first else "6 runs went back to an earlier step"
    assert shown in printed


@pytest.mark.parametrize("store", ["mlflow", "tensorboard"])
def test_a_start_in_the_same_run_of_a_tracker_replaces_the_one_before(
    tmp_path: Path, store: str
) -> None:
    """Both keep all values of a run by step and time."""
    if store == "mlflow":
        address = f"sqlite:///{tmp_path}/logs.db"
        logs.write_mlflow(address)
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=address)
        for run in client.search_runs([client.get_experiment_by_name("ours").experiment_id]):
            for step in range(0, 41, 10):
                client.log_metric(run.info.run_id, "eval/reward", 0.15, 5000 + step, step)
        arguments = ["import.files=logs.db"]
    else:
        for n, seed in logs.RUNS:
            first = [(row["step"], row["eval_reward"]) for row in logs.rows(n, seed)]
            second = [(step, 0.15) for step in range(0, 41, 10)]
            logs.write_events(
                tmp_path / "logs" / f"n{n}_s{seed}", {"eval/reward": [*first, *second]}
            )
        table = logs.write_runs_table(
            tmp_path / "runs.csv", {(n, seed): f"n{n}_s{seed}" for n, seed in logs.RUNS}
        )
        arguments = ["import.files=logs", f"import.runs={table}"]
    printed, records = logs.imported(tmp_path, *arguments)
    assert logs.steps_of(records) == {key: [*range(0, 41, 10)] for key in logs.RUNS}
    assert "went back to an earlier step" in printed


def test_rows_that_are_out_of_order_replace_nothing(tmp_path: Path) -> None:
    """Evaluations that end later than others, a table by falling steps, and a second part first."""
    orders = {0: [0, 10, 30, 20, 40, 50, 60, 80, 70, 90, 100], 1: [*range(100, -1, -10)]}
    for n, seed in logs.RUNS:
        order = orders[seed] if n < 16 else [*range(60, 101, 10), *range(0, 60, 10)]
        logs.write_lines(tmp_path / "logs" / f"n{n}_s{seed}.jsonl", logs.rows(n, seed, order))
    printed, records = logs.imported(tmp_path, "import.files=logs")
    assert logs.steps_of(records) == ALL
    assert "went back" not in printed


@pytest.mark.parametrize("twice", [logs.STEPS, (0, 10, 20, 30), (50,)])
@pytest.mark.parametrize("seeds", [True, False])
def test_a_row_that_is_there_twice_counts_once(
    tmp_path: Path, twice: tuple[int, ...], seeds: bool
) -> None:
    """No evaluation after it is left out."""
    runs = logs.RUNS if seeds else logs.RUNS[::2]
    own = [row for key in runs for steps in (logs.STEPS, twice) for row in logs.rows(*key, steps)]
    dropped = () if seeds else ("seed",)
    write_csv(tmp_path / "a.csv", [{k: row[k] for k in row if k not in dropped} for row in own])
    printed, records = logs.imported(tmp_path, "import.files=a.csv")
    assert logs.steps_of(records) == {key: list(logs.STEPS) for key in runs}
    logs.require_rewards(records)
    assert f"{len(runs) * len(twice)} evaluations repeated at one step" in printed
    assert "went back" not in printed


def test_runs_of_an_import_that_grew_are_moved_to_the_trash(tmp_path: Path) -> None:
    replaced = []
    for last in (81, 101, 101):
        own = [row for key in logs.RUNS for row in logs.rows(*key, range(0, last, 10))]
        write_csv(tmp_path / "a.csv", own)
        replaced.append(
            "it was the import of plan" in logs.imported(tmp_path, "import.files=a.csv")[0]
        )
    assert replaced == [False, True, False], "the same file again adds nothing"
    assert len([*tmp_path.glob("sweeps/runs/*")]) == 2 * len(logs.RUNS)
    listed = isosweep("mode=clean", cwd=tmp_path).stdout
    assert listed.count("(no sweep's plan names it)") == len(logs.RUNS)
    assert "6 of 6 moved" in isosweep("mode=clean", "confirm=true", cwd=tmp_path).stdout
    assert len([*tmp_path.glob("sweeps/trash/*/runs/*")]) == len(logs.RUNS)
    assert logs.steps_of(library.open(tmp_path / "sweeps" / "x").records) == ALL


def test_rows_that_go_back_are_refused_where_nothing_tells_runs_apart(tmp_path: Path) -> None:
    own = [
        {k: v for k, v in row.items() if k != "seed"}
        for n in (4, 8, 16)
        for seed, steps in enumerate((range(0, 101, 10), range(0, 31, 10)))
        for row in logs.rows(n, seed, steps)
    ]
    write_csv(tmp_path / "a.csv", own)
    said = refused("mode=import", "import.files=a.csv", cwd=tmp_path)
    assert "no column tells runs or seeds apart, and rows go back" in said


def test_tokens_of_steps_that_a_resumed_run_repeats_are_summed_once(tmp_path: Path) -> None:
    def console(steps: list[int]) -> str:
        return "".join(
            f"step:{s} - perf/total_num_tokens:{100_000 * n}"
            + (f" - val-core/x/reward/mean@8:{logs.reward(n, seed, s)}" if s % 10 == 0 else "")
            + "\n"
            for s in steps
        )

    (tmp_path / "logs").mkdir()
    for n, seed in logs.RUNS:
        steps = [*range(1, 101)] if n != 8 else [*range(1, 61), *range(51, 101)]
        (tmp_path / "logs" / f"n{n}_s{seed}.log").write_text(console(steps))
    table = logs.write_runs_table(
        tmp_path / "runs.csv", {(n, seed): f"n{n}_s{seed}.log" for n, seed in logs.RUNS}
    )
    printed, records = logs.imported(
        tmp_path,
        "import.files=logs",
        f"import.runs={table}",
        "budget_unit=tokens",
        "import.columns={compute:perf/total_num_tokens}",
        "import.per_step=true",
    )
    spent = records["spent"] / (records["n"] * records["step"])
    assert spent.tolist() == pytest.approx([100_000] * len(records))
    assert "20 rows of compute logged again for a step: each step is summed once" in printed


def test_two_rows_of_a_run_that_differ_are_refused(tmp_path: Path) -> None:
    logs.write_trainer_states(tmp_path / "logs")
    names = {(n, seed): f"n{n}_s{seed}" for n, seed in logs.RUNS}
    table = logs.write_runs_table(tmp_path / "runs.csv", names | {(8, 5): "n4_s0"})
    said = refused("mode=import", "import.files=logs", f"import.runs={table}", cwd=tmp_path)
    assert "has two rows of run n4_s0, which differ" in said


NAMES = ("000", "NA", "null", "10e2", "1000", "nan")


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_names_of_runs_are_text(tmp_path: Path, ending: str) -> None:
    frame = pandas.DataFrame(
        [
            {"run_id": name, **row}
            for name, (n, seed) in zip(NAMES, logs.RUNS, strict=True)
            for row in logs.rows(n, seed)
        ]
    ).drop(columns="seed")
    path = tmp_path / f"a.{ending}"
    match ending:
        case "csv":
            frame.to_csv(path, index=False)
        case "tsv":
            frame.to_csv(path, index=False, sep="\t")
        case "jsonl":
            logs.write_lines(path, frame.to_dict("records"))
        case _:
            frame.to_parquet(path)
    _, records = logs.imported(tmp_path, f"import.files={path}")
    assert logs.steps_of(records) == ALL
    again = library.from_frame(frame, tmp_path / "frame", sweeps_dir=str(tmp_path / "s"))
    assert logs.steps_of(again.records) == ALL


def test_a_row_without_a_run_is_refused(tmp_path: Path) -> None:
    own = [{"run": f"{n}-{seed}", **row} for n, seed in logs.RUNS for row in logs.rows(n, seed)]
    own[3]["run"] = ""
    write_csv(tmp_path / "a.csv", own)
    assert "row 4 has no run" in refused("mode=import", "import.files=a.csv", cwd=tmp_path)
