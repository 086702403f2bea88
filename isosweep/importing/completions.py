"""Answers that another trainer wrote down, as a run's own are kept (`store.completions`).

Files of a run lie in a folder of its name: `N.jsonl`, as verl dumps rollouts and validation
(`trainer.rollout_data_dir`, `validation_data_dir`), `completions_N.parquet`, as TRL's
`log_completions` writes them, and W&B's tables, `NAME_N_HASH.table.json`; N is the step.
"""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isosweep.errors import SettingError
from isosweep.importing.columns import first_names, first_of
from isosweep.store.completions import (
    MOST_ROLLOUTS,
    AnsweredProblem,
    Completion,
    KeptCompletions,
    append_completions,
    kept_problems,
    shortened,
)
from isosweep.store.paths import RunPaths
from isosweep.store.records import read_records

if TYPE_CHECKING:
    import pandas

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


def store_completions(setting: str, runs: Sequence[tuple[str, RunPaths]]) -> int:
    """Store the answers of runs (name, files) that have a folder in the directory `setting`; return
    how many runs have one.

    Raises SettingError where none has, and for a file that cannot be read.
    """
    root, stored = Path(setting), 0
    for name, files in runs:
        if (by_step := _files_in(root / name)) and not files.completions.exists():
            _store_run(files, by_step)
        stored += bool(by_step)
    if not stored:
        names = first_names([name for name, _ in runs], 3)
        rule = f"has no folder with generations that is called as a run: {names}"
        nearest = "RUN/1.jsonl of verl's, or RUN/completions/completions_00001.parquet of TRL's"
        raise SettingError("import.generations", setting, rule, nearest)
    return stored


def _files_in(folder: Path) -> dict[int, Path]:
    found = ((_FILES.fullmatch(path.name), path) for path in sorted(folder.rglob("*")))
    return {int(next(filter(None, match.groups()))): path for match, path in found if match}


def _store_run(files: RunPaths, by_step: dict[int, Path]) -> None:
    """Keep of every record the newest generations up to its step."""
    made = {step: _problems(by_step[step]) for step in sorted(by_step)}
    first, last = made[min(made)], made[max(made)]
    chosen = kept_problems([*first], _PROBLEMS)
    # Held-out problems come again and again; of training each generation has others.
    heldout = 2 * len(chosen & last.keys()) >= len(chosen) and len(made) > 1
    steps = [record.step for record in read_records(files.records).records]
    for record, before in zip(steps, [-1, *steps[:-1]], strict=True):
        own = [step for step in made if before < step <= record]
        if not own:
            continue
        problems = made[own[-1]]
        kept = [shortened(each) for name, each in problems.items() if name in chosen]
        rollouts = [] if heldout else [shortened(each) for each in _first(problems.values())]
        append_completions(
            files,
            1,
            KeptCompletions(
                step=record, heldout=tuple(kept) if heldout else (), training=tuple(rollouts)
            ),
        )


def _first(problems: Iterable[AnsweredProblem]) -> list[AnsweredProblem]:
    """Problems up to `MOST_ROLLOUTS` completions."""
    found: list[AnsweredProblem] = []
    for each in problems:
        if sum(len(own.completions) for own in found) >= MOST_ROLLOUTS:
            break
        found.append(each)
    return found


def _problems(path: Path) -> dict[str, AnsweredProblem]:
    """The problems of one file, by their prompts. Raises SettingError."""
    try:
        rows = _read(path).to_dict("records")
        names = [str(name) for name in (rows[0] if rows else ())]
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
        return {prompt: _answered(prompt, own) for prompt, own in found.items()}
    except Exception as error:
        rule = f"{path} cannot be read as generations: {error}"
        raise SettingError("import.generations", path.parent, rule) from None


def _answered(prompt: str, rows: Sequence[dict[str, Any]]) -> AnsweredProblem:
    return AnsweredProblem(
        problem_id=prompt,
        prompt=prompt,
        answer=_text(rows[0].get("answer") or ""),
        completions=tuple(
            Completion(
                text=_text(row["text"]),
                reward=float(row["reward"]),
                advantage=float(row["advantage"]) if "advantage" in row else None,
            )
            for row in rows
        ),
    )


def _text(value: Any) -> str:
    """A text, or messages as JSON."""
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def _read(path: Path) -> "pandas.DataFrame":
    import pandas

    if path.suffix == ".parquet":
        return pandas.read_parquet(path)
    lines = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return pandas.DataFrame([json.loads(line) for line in lines.splitlines() if line.strip()])
    table = json.loads(lines)
    return pandas.DataFrame(table["data"], columns=table["columns"])
