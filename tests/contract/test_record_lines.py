"""A damaged line of a run's records is a problem of that line, and counts for nothing."""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import isosweep as door
from tests.contract.surface import isosweep, write_csv

_ANYTHING: tuple[Any, ...] = (
    None,
    "x",
    "",
    [],
    ["x"],
    {},
    {"x": 1},
    True,
    False,
    -1,
    -1.5,
    10**400,
)
_NOT_FINITE = (float("nan"), float("inf"))
# By the path of a field: what it cannot be.
_COUNT = (*_ANYTHING, 0.5, 2**60, *_NOT_FINITE)
_AMOUNT = (*_ANYTHING, *_NOT_FINITE)
_WRONG: dict[tuple[str, ...], tuple[Any, ...]] = {
    ("kind",): (*_ANYTHING, "other"),
    ("version",): (*_COUNT, 0, 99),
    ("attempt",): (*_COUNT, 0, 2),
    ("step",): _COUNT,
    ("unix_time",): (*_AMOUNT, 1e300),
    ("seconds",): _AMOUNT,
    ("mean_reward",): (*(v for v in _AMOUNT if v is not None), 1.5),
    ("standard_error",): tuple(v for v in _AMOUNT if v is not None),
    ("samples_per_problem",): (*_COUNT, 0),
    ("successes",): (*_ANYTHING, [-1], [2], [0.5], [True], [None]),
    ("scores",): (*(v for v in _ANYTHING if v != {}), {"majority": [1.0]}),
    ("sets",): (*(v for v in _ANYTHING if v != {}), {"hard": {}}, {"hard": {"mean_reward": 2}}),
    ("compute",): (*_ANYTHING, {"training_flops": 1e9}),
    ("compute", "generations"): _COUNT,
    ("compute", "rollouts"): _COUNT,
    ("compute", "completion_tokens"): _COUNT,
    ("compute", "training_flops"): _AMOUNT,
    ("compute", "device_seconds"): _AMOUNT,
    ("compute", "startup_seconds"): _AMOUNT,
    ("compute", "other"): (1, None),
}
_CASES = [(field, value) for field, values in _WRONG.items() for value in values]
# What a line cannot do without.
_NEEDED = [f for f in _WRONG if f[0] in ("kind", "version", "attempt", "step", "unix_time")]
_NEEDED += [("compute",), ("compute", "training_flops"), ("compute", "device_seconds")]


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the imported sweep s."""
    cwd = tmp_path_factory.mktemp("lines")
    rows = [
        {"n": n, "B": 4, "seed": 0, "step": k, "flops": 1e9 * n * k, "reward": 0.2 + 0.02 * k}
        for n in (2, 4, 8)
        for k in range(8)
    ]
    table = write_csv(cwd / "s.csv", rows)
    isosweep("mode=import", f"import.files={table}", "sweep=s", cwd=cwd)
    return cwd


def _file(cwd: Path) -> Path:
    """The records of the first run."""
    return min((cwd / "sweeps" / "runs").glob("*/records/1.jsonl"))


def _changed(line: str, field: tuple[str, ...], *value: Any) -> str:
    """The line with another value of a field, or without it."""
    document = json.loads(line)
    inner = document
    for name in field[:-1]:
        inner = inner[name]
    inner.pop(field[-1], None)
    if value:
        (inner[field[-1]],) = value
    return json.dumps(document)


def _read(cwd: Path) -> tuple[pd.DataFrame, list[str]]:
    sweep = door.open(cwd / "sweeps" / "s")
    return sweep.records, list(sweep.data.problems)


def _require_left_out(cwd: Path, bad: Iterable[str]) -> None:
    """Each line, in the place of the run's last, is reported, and reads as no line at all."""
    file = _file(cwd)
    *kept, _ = whole = file.read_text().splitlines()
    try:
        file.write_text("\n".join(kept) + "\n")
        without, _ = _read(cwd)
        for line in bad:
            file.write_text("\n".join([*kept, line]) + "\n")
            records, problems = _read(cwd)
            pd.testing.assert_frame_equal(records, without)
            assert [p for p in problems if p.startswith(f"{file}:{len(whole)}: ")], line
    finally:
        file.write_text("\n".join(whole) + "\n")


@settings(
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(changes=st.lists(st.sampled_from(_CASES), min_size=1, max_size=2))
def test_a_line_with_a_value_that_cannot_be_is_left_out_and_named(
    imported: Path, changes: list[tuple[tuple[str, ...], Any]]
) -> None:
    line = _file(imported).read_text().splitlines()[-1]
    # A field of compute first, while that is one.
    for field, value in sorted(changes, key=lambda change: -len(change[0])):
        line = _changed(line, field, value)
    _require_left_out(imported, [line])


def test_a_line_without_a_field_that_it_needs_is_left_out_and_named(imported: Path) -> None:
    line = _file(imported).read_text().splitlines()[-1]
    bad = [_changed(line, field) for field in _NEEDED]
    _require_left_out(imported, [*bad, "7", "[]", "null", '"x"', "{", line[:-9], "\0\ufffd"])


def test_commands_read_a_sweep_with_such_lines_and_say_which(
    imported: Path, tmp_path: Path
) -> None:
    shutil.copytree(imported / "sweeps", tmp_path / "sweeps")
    file = _file(tmp_path)
    line = file.read_text().splitlines()[-1]
    bad = [_changed(line, field, value) for field, value in _CASES]
    with file.open("a") as records:
        records.writelines(f"{each}\n" for each in bad)
    isosweep("mode=status", "sweep=s", cwd=tmp_path)
    isosweep("mode=analyse", "sweep=s", cwd=tmp_path)
    answer = json.loads((tmp_path / "sweeps" / "s" / "analysis" / "answer.json").read_text())
    assert sum(str(file) in problem for problem in answer["problems"]) == len(bad)
    assert len(_read(tmp_path)[0]) == len(_read(imported)[0])
