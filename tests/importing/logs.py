"""A small sweep, its records as tables, and the same told in other trackers' formats."""

import csv
import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from isosweep.files import read_json
from isosweep.plan.cells import Plan, plan_from_document
from isosweep.store.paths import SweepPaths
from isosweep.store.records import read_records
from tests.analysis.sweeps import make_plan, peaked, write_sweep

BUDGETS = (2e6, 4e6, 8e6, 16e6, 32e6)
Row = dict[str, Any]


def direct(root: Path) -> SweepPaths:
    """A sweep as isosweep itself leaves it, in which the best n grows."""
    plan = make_plan(generations=(2, 4, 8, 16), seeds=(0, 1, 2), budgets=BUDGETS)
    return write_sweep(root, peaked(lambda budget: 4 * (budget / 2e6) ** 0.5), plan=plan)


def rows_of(paths: SweepPaths) -> Iterator[Row]:
    """What its records say, a row each."""
    document = read_json(paths.plan)
    assert document is not None
    plan: Plan = plan_from_document(document)
    for run in plan.runs:
        for record in read_records(paths.run(run.run_id).records).records:
            yield {
                "run": run.run_id,
                "n": run.num_generations,
                "B": run.problems_per_batch,
                "seed": run.seed,
                "step": record.step,
                "flops": record.compute.flops,
                "eval_reward": record.reward,
                "successes": json.dumps(record.successes),
                "samples": record.samples_per_problem,
                "problems": len(record.successes),
            }


def write_csv(path: Path, rows: list[Row]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def by_run(rows: list[Row]) -> dict[str, list[Row]]:
    """The rows of each run."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["run"], []).append(row)
    return found


def write_runs(path: Path, rows: list[Row], names: Mapping[str, str] | None = None) -> None:
    """A table of n, B and seed, a row for each run; `names`: what logs call them."""
    firsts = [own[0] for own in by_run(rows).values()]
    told = [{k: row[k] for k in ("n", "B", "seed")} for row in firsts]
    called = [(names or {}).get(row["run"], row["run"]) for row in firsts]
    write_csv(path, [{"run": n, **own} for n, own in zip(called, told, strict=True)])


def write_verl(folder: Path, rows: list[Row]) -> None:
    """verl's console, as Ray shows it: training at every step, a held-out reward at some."""
    folder.mkdir()
    for name, own in by_run(rows).items():
        lines = ["some banner - of the trainer: 3"]
        for row in own:
            values = {
                "actor/entropy": 0.25,
                "val-core/gsm8k/reward/mean@8": np.float64(row["eval_reward"]),
                "total_flops": row["flops"],
            }
            parts = [f"{key}:{value!r}" for key, value in values.items()]
            lines.append(
                f"\x1b[36m(TaskRunner pid=7)\x1b[0m step:{row['step']} - {' - '.join(parts)}"
            )
        (folder / f"{name}.log").write_text("\n".join(lines))


def write_trainer_states(folder: Path, rows: list[Row]) -> None:
    """What TRL's trainer leaves: the history in each checkpoint, compute in other rows."""
    for name, own in by_run(rows).items():
        history: list[Row] = []
        for row in own:
            history.append({"step": row["step"], "loss": 0.1, "total_flops": row["flops"]})
            history.append({"step": row["step"], "eval_reward": row["eval_reward"], "epoch": 0.1})
        for step, last in ((9, 4), (100, len(history))):
            where = folder / name / f"checkpoint-{step}"
            where.mkdir(parents=True)
            state = {"global_step": step, "log_history": history[:last]}
            (where / "trainer_state.json").write_text(json.dumps(state))


def leveldb_log(records: list[bytes]) -> bytes:
    """A file of W&B's: LevelDB's log format, after a header of its own; no checksums."""
    log = bytearray(b":W&B" + struct.pack("<HB", 0xBEE1, 0))
    for record in records:
        left, begun = record, False
        while True:
            room = (1 << 15) - len(log) % (1 << 15)
            if room < 7:
                log += bytes(room)
                continue
            part, left = left[: room - 7], left[room - 7 :]
            kind = (3 if begun else 2) if left else (4 if begun else 1)
            log += struct.pack("<LHB", 0, len(part), kind) + part
            begun = True
            if not left:
                break
    return bytes(log)
