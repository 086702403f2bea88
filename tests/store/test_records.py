"""Records survive kills, zombies and torn lines."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isosweep.compute import Compute, has_reached, sits_at
from isosweep.store.records import (
    AttemptStart,
    Evaluation,
    Record,
    append_attempt,
    append_record,
    append_warning,
    attempt_file,
    read_records,
    read_warnings,
)
from isosweep.store.warnings import HealthWarning


def _record(step: int, success: int = 1) -> Record:
    return Record(
        step=step,
        compute=Compute(generations=step, rollouts=8 * step, training_flops=1e6 * step),
        successes=(success, 0),
        samples_per_problem=2,
        completion_tokens=7.0,
        unix_time=1.0,
    )


_SPENT = vars(_record(0).compute)


def _start(log: Path, attempt: int, parent: int | None, step: int) -> None:
    append_attempt(log, AttemptStart(attempt=attempt, parent=parent, resumed_step=step))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of records that attempt 1 has begun."""
    _start(tmp_path / "records", 1, None, 0)
    return tmp_path / "records"


def test_a_record_is_on_the_disk_once_it_is_appended(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    append_record(log, 1, _record(0))
    assert synced


def test_a_torn_line_is_reported_with_file_and_line_and_swallows_nothing(log: Path) -> None:
    append_record(log, 1, _record(0))
    path = attempt_file(log, 1)
    with path.open("ab") as file:
        file.write(b'{"kind": "record", "step": 4')
    append_record(log, 1, _record(8))
    read = read_records(log)
    assert [r.step for r in read.records] == [0, 8]
    assert len(read.problems) == 1
    assert f"{path}:3:" in read.problems[0]


def test_hardware_flops_are_kept_and_a_record_from_before_them_has_none(log: Path) -> None:
    spent = Compute(decode_flops=1.0, training_flops=2.0) + Compute(training_hardware_flops=3.0)
    append_record(log, 1, replace(_record(0), compute=spent + Compute(scoring_hardware_flops=5.0)))
    append_record(log, 1, _record(4))
    path = attempt_file(log, 1)
    lines = path.read_text().splitlines()
    old = json.loads(lines[2])
    del old["compute"]["scoring_hardware_flops"], old["compute"]["training_hardware_flops"]
    path.write_text("\n".join([*lines[:2], json.dumps(old)]) + "\n")
    new, before = (record.compute for record in read_records(log).records)
    assert (new.flops, new.hardware_flops) == (3.0, 9.0)
    assert before.hardware_flops is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 99}, "format version 99, not 2"),
        ({"compute": _SPENT | {"training_flops": float("nan")}}, "compute.training_flops is nan"),
        ({"successes": [3, 0]}, "whole numbers from 0 to 2"),
        ({"step": 0}, "step 0 again in attempt 1"),
        ({"compute": _SPENT | {"unknown": 1}}, "compute.unknown is 1"),
        ({"sets": {"hard": {"successes": [3]}}}, "whole numbers from 0 to 1"),
        ({"attempt": 2}, "it is of attempt 2, in the file of attempt 1"),
    ],
)
def test_a_bad_line_is_reported_with_its_number_and_the_rest_counts(
    change: dict[str, Any], message: str, log: Path
) -> None:
    for step in (0, 4, 8):
        append_record(log, 1, _record(step))
    path = attempt_file(log, 1)
    lines = path.read_text().splitlines()
    lines[2] = json.dumps(json.loads(lines[2]) | change)
    path.write_text("\n".join(lines) + "\n")
    read = read_records(log)
    assert [record.step for record in read.records] == [0, 8]
    (problem,) = read.problems
    assert problem.startswith(f"{path}:3: ")
    assert message in problem


def test_lines_of_an_overtaken_attempt_do_not_mix(log: Path) -> None:
    for step in (0, 10, 20):
        append_record(log, 1, _record(step, success=1))
    _start(log, 2, 1, 10)
    append_record(log, 1, _record(30, success=1))
    append_record(log, 2, _record(20, success=2))
    records = read_records(log).records
    assert [(r.step, r.successes[0]) for r in records] == [(0, 1), (10, 1), (20, 2)]


def test_warnings_of_an_overtaken_attempt_do_not_count(tmp_path: Path) -> None:
    records, warnings = tmp_path / "records", tmp_path / "warnings"
    assert read_warnings(warnings, records) == []
    early, late = (
        HealthWarning(step=step, rule="truncation", value=0.5, threshold=0.1, message="above")
        for step in (5, 15)
    )
    broken = HealthWarning(step=15, rule="non_finite", value=None, threshold=None, message="nan")
    _start(records, 1, None, 0)
    append_warning(warnings, 1, early)
    append_warning(warnings, 1, late)
    assert read_warnings(warnings, records) == [early, late]
    _start(records, 2, 1, 10)
    append_warning(warnings, 2, late)
    append_warning(warnings, 2, broken)
    assert read_warnings(warnings, records) == [early, late, broken]


def test_a_budget_is_reached_at_the_nearest_step() -> None:
    cost = 3.0
    for budget, step in ((30.0, 10), (31.0, 10), (31.6, 11), (29.0, 10)):
        reached = [s for s in range(1, 20) if has_reached(budget, s * cost, s)]
        assert reached[0] == step
        assert sits_at(budget, step * cost, step)
        assert not sits_at(budget, (step + 2) * cost, step + 2)


@pytest.mark.parametrize("chain", [[(5, 5)], [(5, 6), (6, 5)]])
def test_a_chain_that_leads_back_to_itself_is_reported(
    chain: list[tuple[int, int]], log: Path
) -> None:
    append_record(log, 1, _record(8))
    _start(log, 4, 1, 8)
    for attempt, parent in chain:
        _start(log, attempt, parent, 3)
    read = read_records(log)
    # Of attempt 6, what it goes on from is named too.
    assert len(read.problems) == len(chain)
    assert "a later one" in read.problems[0]
    # The rest is read: of an attempt 6, which goes on from 5, no record counts.
    assert [r.step for r in read.records] == ([8] if len(chain) == 1 else [])


def test_an_attempt_whose_first_line_is_lost_does_not_count_and_is_named(tmp_path: Path) -> None:
    log = tmp_path / "records"
    for attempt, parent, step in ((1, None, 0), (2, 1, 4)):
        _start(log, attempt, parent, step)
        append_record(log, attempt, _record(step))
    second = attempt_file(log, 2)
    head, line = second.read_text().splitlines()
    second.write_text(line + "\n")
    read = read_records(log)
    assert [record.step for record in read.records] == [0]
    assert read.problems == (
        f"{second}: its first line, which says where attempt 2 began, is lost: "
        "its records do not count",
    )
    second.write_text(f"{head[:20]}\n{line}\n")
    assert [problem.partition(": ")[0] for problem in read_records(log).problems] == [
        f"{second}:1",
        str(second),
    ]


def test_a_lost_file_in_the_middle_of_a_chain_is_named(log: Path) -> None:
    append_record(log, 1, _record(0))
    _start(log, 2, 1, 4)
    append_record(log, 2, _record(8))
    attempt_file(log, 1).unlink()
    read = read_records(log)
    assert [record.step for record in read.records] == [8]
    (problem,) = read.problems
    assert problem.startswith(f"{attempt_file(log, 1)}: attempt 2 goes on from its records")


@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe", b"[" * 100_000, b"7\n", b'{"kind": 1}'])
def test_garbage_in_one_attempts_file_leaves_the_others(content: bytes, log: Path) -> None:
    append_record(log, 1, _record(0))
    attempt_file(log, 2).write_bytes(content)
    attempt_file(log, 3).mkdir()
    (log / "notes.jsonl").write_text("mine")
    read = read_records(log)
    assert [record.step for record in read.records] == [0]
    named = {problem.partition(": ")[0] for problem in read.problems}
    garbage = {f"{attempt_file(log, 2)}:1"} if content else set()
    assert named == {str(attempt_file(log, 3)), *garbage}


def test_a_record_keeps_its_sets_apart_and_one_without_any_says_nothing_of_them(
    log: Path,
) -> None:
    own = Evaluation(successes=(2, 0, 1), samples_per_problem=2, completion_tokens=3.5)
    append_record(log, 1, replace(_record(0), sets={"hard": own}))
    append_record(log, 1, _record(4))
    with_set, without = read_records(log).records
    assert with_set.sets == {"hard": own}
    assert with_set.successes == without.successes
    assert own.reward == 0.5
    assert with_set.reproducible()["sets"]["hard"]["successes"] == (2, 0, 1)
    first, second = attempt_file(log, 1).read_text().splitlines()[1:]
    assert "sets" in json.loads(first)
    assert "sets" not in json.loads(second)


def test_a_line_of_format_1_is_read_as_it_was_written(log: Path) -> None:
    append_record(log, 1, _record(4))
    path = attempt_file(log, 1)
    path.write_text(path.read_text().replace('"version": 2', '"version": 1'))
    read = read_records(log)
    assert (read.records, read.problems) == ((_record(4),), ())


def test_a_record_keeps_scores_by_name_and_means_without_problems(log: Path) -> None:
    voted = replace(_record(0), scores={"majority": (1.0,) * len(_record(0).successes)})
    mean = replace(_record(4), successes=(), mean_reward=0.25, standard_error=0.01)
    unknown = replace(mean, step=8, standard_error=None, completion_tokens=None)
    for record in (voted, mean, unknown):
        append_record(log, 1, record)
    read = read_records(log)
    assert (read.records, read.problems) == ((voted, mean, unknown), ())
    assert mean.reward == unknown.reward == 0.25
    assert "mean_reward" not in attempt_file(log, 1).read_text().splitlines()[1]
