"""Answers that another trainer wrote down, as a run's own are kept (`store.completions`).

Files of a run lie in a folder of its name: `N.jsonl`, as verl dumps rollouts and validation
(`trainer.rollout_data_dir`, `validation_data_dir`), `completions_N.parquet`, as TRL's
`log_completions` writes them, and W&B's tables, `NAME_N_HASH.table.json`; N is the step.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from isosweep.errors import SettingError
from isosweep.importing.columns import first_names, first_of
from isosweep.importing.runs import ForeignRun
from isosweep.store.completions import (
    MOST_ROLLOUTS,
    AnsweredProblem,
    Completion,
    KeptCompletions,
    kept_problems,
    shortened,
)
from isosweep.tasks.problem import content_id

_FILES = re.compile(r"(\d+)\.jsonl|completions_(\d+)\.parquet|.*_(\d+)_\w+\.table\.json")
# Usual names of columns; of TRL's, rewards are called by their functions.
_USUAL = {
    "prompt": ("prompt", "input", "prompts", "query"),
    "text": ("completion", "output", "response", "completions"),
    "reward": ("score", "reward", "rewards", "acc"),
    "answer": ("gts", "ground_truth", "solution", "answer"),
    "advantage": ("advantage", "advantages"),
}
_NO_REWARDS = ("step", "advantage", "advantages")
# Problems whose answers are kept, as in a run of isosweep's.
_PROBLEMS = 8


def read_generations(setting: str, runs: Sequence[ForeignRun]) -> dict[str, list[KeptCompletions]]:
    """Return the answers of the runs that have a folder in the directory `setting`, by the run's
    name: for each record the newest of each kind after the record before it.

    Raises SettingError where no run has a folder, and for a file that cannot be read.
    """
    found = {}
    for run in runs:
        if own := _read_run(Path(setting, run.name), run.steps.tolist()):
            found[run.name] = own
    if not found:
        names = first_names([run.name for run in runs], 3)
        rule = f"has no folder with generations that is called as a run: {names}"
        nearest = "RUN/1.jsonl of verl's, or RUN/completions/completions_00001.parquet of TRL's"
        raise SettingError("import.generations", setting, rule, nearest)
    return found


def _read_run(folder: Path, steps: Sequence[int]) -> list[KeptCompletions]:
    """What a run's folder has for the records after `steps`; each folder in it is of one kind."""
    by_folder: dict[Path, dict[int, Path]] = {}
    for path in sorted(folder.rglob("*")):
        if match := _FILES.fullmatch(path.name):
            by_folder.setdefault(path.parent, {})[int(next(filter(None, match.groups())))] = path
    kept = {step: KeptCompletions(step=step, heldout=()) for step in steps}
    for paths in by_folder.values():
        newest = {
            record: max(own)
            for record, before in zip(steps, [-1, *steps[:-1]], strict=True)
            if (own := [step for step in paths if before < step <= record])
        }
        if not newest:
            continue
        first, last = (_problems(paths[end(newest.values())]) for end in (min, max))
        chosen = kept_problems([*first], _PROBLEMS)
        # Held-out problems come again and again; of training each generation has others.
        heldout = 2 * len(chosen & last.keys()) >= len(chosen) and len(newest) > 1
        for record, step in newest.items():
            problems = _problems(paths[step])
            if heldout:
                few = [each for name, each in problems.items() if name in chosen]
            else:
                every = [*problems.values()]
                few = every[: math.ceil(MOST_ROLLOUTS / len(every[0].completions))]
            cut = tuple(map(shortened, few))
            of_record = kept[record]
            kept[record] = (
                replace(of_record, heldout=cut) if heldout else replace(of_record, training=cut)
            )
    return [each for each in kept.values() if each.problems]


def _problems(path: Path) -> dict[str, AnsweredProblem]:
    """The problems of one file, by their ids. Raises SettingError."""
    try:
        rows = _rows(path)
        if not rows:
            raise ValueError("it has no rows")
        names = [str(name) for name in rows[0]]
        columns = {of: first_of(usual, names) for of, usual in _USUAL.items()}
        if columns["reward"] is None:
            numbers = [n for n in names if isinstance(rows[0][n], int | float)]
            columns["reward"] = next((n for n in numbers if n not in _NO_REWARDS), None)
        if lacking := [name for name in ("prompt", "text", "reward") if columns[name] is None]:
            raise ValueError(f"it has no column of {', '.join(lacking)}")
        found: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            known = {of: row[name] for of, name in columns.items() if name is not None}
            found.setdefault(_text(known["prompt"]), []).append(known)
        return {(made := _answered(prompt, own)).problem_id: made for prompt, own in found.items()}
    except Exception as error:
        # Whatever a library makes of a file that is none of its own.
        rule = f"{path} cannot be read as generations: {error}"
        raise SettingError("import.generations", path.parent, rule) from None


def _answered(prompt: str, rows: Sequence[dict[str, Any]]) -> AnsweredProblem:
    return AnsweredProblem(
        problem_id=content_id("problem", prompt),
        prompt=prompt,
        answer=_text(rows[0].get("answer") or ""),
        completions=tuple(
            Completion(
                text=_text(row["text"]),
                reward=(reward := _finite(row["reward"])),
                # A sum of rewards may exceed 1.
                right=reward >= 1,
                advantage=_finite(row["advantage"]) if "advantage" in row else None,
            )
            for row in rows
        ),
    )


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"it has {value!r} as a number")
    return number


def _text(value: Any) -> str:
    """A text that can be written as UTF-8; messages as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return text.encode(errors="replace").decode()


def _rows(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        import pandas

        rows: list[dict[str, Any]] = pandas.read_parquet(path).to_dict("records")
        return rows
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        # verl writes other line separators, such as U+2028, as they are.
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    table = json.loads(text)
    return [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
