"""Small logs of trainers and trackers, made up for tests of `mode=import`."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas
import pytest

import isosweep as library
from tests.conftest import isosweep
from tests.contract.surface import write_csv

Row = dict[str, Any]
STEPS = tuple(range(0, 101, 10))
RUNS = [(n, seed) for n in (4, 8, 16) for seed in (0, 1)]


def reward(n: int, seed: int, step: int) -> float:
    """Held-out reward: larger n learn faster."""
    return round(0.2 + 0.5 * (1 - math.exp(-n * step / 3000)) + 0.001 * seed + 0.0001, 4)


def rows(n: int, seed: int, steps: Iterable[int] = STEPS) -> list[Row]:
    """The evaluations of one run."""
    sizes = {"n": n, "B": 64, "seed": seed}
    return [{"step": s, **sizes, "eval_reward": reward(n, seed, s)} for s in steps]


def write_lines(path: Path, of: Iterable[Mapping[str, Any]], torn: str = "") -> None:
    """JSON lines, and what was written of a further one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in of) + torn)


def imported(cwd: Path, *overrides: str, name: str = "x") -> tuple[str, pandas.DataFrame]:
    """Import logs as the sweep `name`; what the terminal shows, and the records."""
    done = isosweep("mode=import", f"sweep={name}", *overrides, cwd=cwd)
    return done.stdout + done.stderr, library.open(cwd / "sweeps" / name).records


def steps_of(records: pandas.DataFrame) -> dict[tuple[int, int], list[int]]:
    """Steps of every run, by n and seed."""
    by_run = records.groupby("run_id")
    keys = [(int(own["n"].iloc[0]), int(own["seed"].iloc[0])) for _, own in by_run]
    assert len(set(keys)) == len(keys)
    return {key: own["step"].tolist() for key, (_, own) in zip(keys, by_run, strict=True)}


def require_rewards(records: pandas.DataFrame) -> None:
    """Every evaluation has the reward that was logged there."""
    keys = zip(records["n"], records["seed"], records["step"], strict=True)
    assert records["reward"].tolist() == pytest.approx([reward(*key) for key in keys])


def write_runs_table(path: Path, names: Mapping[tuple[int, int], str]) -> Path:
    """A table of n, B and seed with a row for each run's name."""
    return write_csv(
        path, [{"run": name, "n": n, "B": 64, "seed": s} for (n, s), name in names.items()]
    )


def write_csv_logs(root: Path) -> None:
    root.mkdir()
    for n, seed in RUNS:
        write_csv(root / f"n{n}_s{seed}.csv", rows(n, seed))


def write_json_lines(root: Path) -> None:
    for n, seed in RUNS:
        write_lines(root / f"n{n}_s{seed}.jsonl", rows(n, seed))


def _logged(of: Iterable[Row]) -> Iterator[tuple[int, float]]:
    return ((row["step"], row["eval_reward"]) for row in of)


def write_trainer_states(root: Path) -> None:
    for n, seed in RUNS:
        history = [{"step": s, "eval_reward": r} for s, r in _logged(rows(n, seed))]
        write_state(root / f"n{n}_s{seed}" / "checkpoint-100", history)


def write_state(where: Path, history: Sequence[Row]) -> None:
    """A trainer_state.json as transformers writes it."""
    where.mkdir(parents=True, exist_ok=True)
    state = {"global_step": history[-1]["step"], "log_history": history}
    (where / "trainer_state.json").write_text(json.dumps(state))


def write_consoles(root: Path) -> None:
    root.mkdir()
    for n, seed in RUNS:
        lines = [
            f"(TaskRunner pid=7) step:{s} - actor/entropy:0.2 - val-core/gsm8k/reward/mean@8:"
            f"{f'np.float64({r})' if seed else r}\n"
            for s, r in _logged(rows(n, seed))
        ]
        (root / f"n{n}_s{seed}.log").write_text("".join(lines))


def write_database(path: Path, runs: Iterable[tuple[int, int]] = RUNS) -> None:
    """A store of MLflow's in one file."""
    write_mlflow(f"sqlite:///{path}", runs)


def write_mlflow(address: str, runs: Iterable[tuple[int, int]] = RUNS) -> None:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param

    client = MlflowClient(tracking_uri=address)
    experiment = client.create_experiment("ours")
    for n, seed in runs:
        run = client.create_run(experiment, run_name=f"n{n}-s{seed}").info.run_id
        params = [Param("num_generations", str(n)), Param("B", "64"), Param("seed", str(seed))]
        points = [Metric("eval/reward", r, 1000 + s, s) for s, r in _logged(rows(n, seed))]
        client.log_batch(run, metrics=points, params=params)


def write_events(root: Path, values: Mapping[str, Iterable[tuple[int, float]]]) -> None:
    """One event file of TensorBoard's: of each tag its steps and values."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    root.mkdir(parents=True, exist_ok=True)
    writer = EventFileWriter(str(root))
    at = 1_700_000_000.0
    for tag, points in values.items():
        for step, value in points:
            at += 1
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
            writer.add_event(Event(wall_time=at, step=step, summary=summary))
    writer.close()


def write_tensorboard(root: Path) -> None:
    for n, seed in RUNS:
        write_events(root / f"n{n}_s{seed}", {"eval/reward": _logged(rows(n, seed))})
