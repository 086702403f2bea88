"""Answers that verl, TRL and W&B wrote down are kept with the runs that they are of."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import isosweep
from isosweep.errors import SettingError

STEPS = (0, 10, 20, 40, 80)


def rows_of(step: int, heldout: bool) -> list[dict[str, Any]]:
    """Two answers to each of ten problems, others at every step where they are not held out."""
    names = [f"What is {k} + {0 if heldout else step}?" for k in range(10)]
    return [
        {"input": name, "output": f"say\u2028{k} {step}", "gts": str(k), "score": float(k % 2)}
        for name in names
        for k in (1, 2)
    ]


def of_verl(folder: Path, step: int, heldout: bool) -> None:
    # As verl writes: U+2028 ends a line for Python, and none of JSON's.
    rows = rows_of(step, heldout)
    lines = [json.dumps({**row, "step": step}, ensure_ascii=False) for row in rows]
    (folder / f"{step}.jsonl").write_text("\n".join(lines) + "\n")


def of_trl(folder: Path, step: int, heldout: bool) -> None:
    named = {"input": "prompt", "output": "completion", "score": "correctness"}
    frame = pd.DataFrame(rows_of(step, heldout)).rename(columns=named).drop(columns="gts")
    frame = frame.assign(step=step, advantage=0.5)
    (folder / "completions").mkdir(exist_ok=True)
    frame.to_parquet(folder / "completions" / f"completions_{step:05d}.parquet")


def of_wandb(folder: Path, step: int, heldout: bool) -> None:
    frame = pd.DataFrame(rows_of(step, heldout))
    table = {"columns": [*frame.columns], "data": frame.to_numpy().tolist()}
    (folder / f"completions_{step}_5f3a.table.json").write_text(
        # Half of a character, as JSON may have it.
        json.dumps(table).replace("What", "\\ud800What")
    )


def imported(tmp_path: Path, write: Callable[[Path, int, bool], None], heldout: bool) -> Any:
    """The sweep of four runs, of which three have generations."""
    rows = [
        {"run": f"n{n}s{s}", "n": n, "B": 8, "step": step, "eval_reward": 0.2 + 0.005 * step}
        for n in (2, 4)
        for s in (0, 1)
        for step in STEPS
    ]
    for name in ("n2s0", "n2s1", "n4s0"):
        (tmp_path / "made" / name).mkdir(parents=True)
        for step in (*STEPS, 30):
            write(tmp_path / "made" / name, step, heldout)
    options = {"generations": str(tmp_path / "made")}
    return isosweep.from_frame(pd.DataFrame(rows), tmp_path / "sweeps" / "ours", columns=options)


@pytest.mark.parametrize("write", [of_verl, of_trl, of_wandb])
@pytest.mark.parametrize("heldout", [True, False])
def test_answers_are_kept_with_the_record_that_they_come_before(
    write: Callable[[Path, int, bool], None], heldout: bool, tmp_path: Path
) -> None:
    sweep = imported(tmp_path, write, heldout)
    kept = sweep.completions
    assert kept["run_id"].nunique() == 3
    assert {*kept["source"]} == {"heldout" if heldout else "training"}
    # Of step 30 and 40 the later one.
    assert {*kept["step"]} == {*STEPS}
    assert (kept["completion"].str.split().str[-1].astype(int) == kept["step"]).all()
    assert (kept["reward"] == kept["completion"].str.split().str[1].astype(int) % 2).all()
    own = kept[(kept["step"] == 80) & (kept["run_id"] == kept["run_id"].iloc[0])]
    assert len(own) == (16 if heldout else 8)
    assert kept["tokens"].isna().all()


def test_rollouts_and_validation_of_verl_lie_beside_each_other(tmp_path: Path) -> None:
    def both(folder: Path, step: int, heldout: bool) -> None:
        for kind in ("rollout", "validation"):
            (folder / kind).mkdir(exist_ok=True)
        of_verl(folder / "rollout", step, False)
        if step in (0, 40):
            of_verl(folder / "validation", step, True)

    kept = imported(tmp_path, both, True).completions
    assert {*kept[kept["source"] == "heldout"]["step"]} == {0, 40}
    assert {*kept[kept["source"] == "training"]["step"]} == {*STEPS}


def test_a_file_that_cannot_be_read_stores_nothing(tmp_path: Path) -> None:
    def broken(folder: Path, step: int, heldout: bool) -> None:
        of_verl(folder, step, heldout)
        if step == 80:
            path = folder / "80.jsonl"
            path.write_text(path.read_text().replace('"score": 0.0', '"score": NaN'))

    with pytest.raises(SettingError, match=r"80\.jsonl cannot be read .* nan as a number"):
        imported(tmp_path, broken, True)
    assert not (tmp_path / "sweeps" / "ours" / "plan.json").exists()


def test_a_directory_without_a_runs_generations_is_refused(tmp_path: Path) -> None:
    (tmp_path / "made" / "other").mkdir(parents=True)
    of_verl(tmp_path / "made" / "other", 0, True)
    frame = pd.DataFrame({"run": ["a"] * 5, "n": 2, "B": 8, "step": STEPS, "eval_reward": 0.5})
    frame = pd.concat([frame, frame.assign(run="b", n=4)])
    options = {"generations": str(tmp_path / "made")}
    with pytest.raises(SettingError, match=r"has no folder .* called as a run: a, b"):
        isosweep.from_frame(frame, tmp_path / "sweeps" / "ours", columns=options)
