"""Records survive kills, zombies and torn lines."""

import json
import os
from dataclasses import replace
from pathlib import Path

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


def test_no_log_is_begun_by_a_record(tmp_path: Path) -> None:
    # As beneath a mount point whose file system is away: the record would be lost with it.
    with pytest.raises(FileNotFoundError):
        append_record(tmp_path / "records", 1, _record(0))


def test_a_torn_and_a_repeated_line_are_named_and_swallow_nothing(log: Path) -> None:
    append_record(log, 1, _record(0))
    path = attempt_file(log, 1)
    with path.open("ab") as file:
        file.write(b'{"kind": "record", "step": 4')
    append_record(log, 1, _record(8))
    append_record(log, 1, _record(0))
    read = read_records(log)
    assert [r.step for r in read.records] == [0, 8]
    assert read.problems == (
        f"{path}:3: not a JSON object (a torn line)",
        f"{path}:5: step 0 again in attempt 1",
    )


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


def test_lines_of_an_overtaken_attempt_do_not_mix(log: Path) -> None:
    for step in (0, 10, 20):
        append_record(log, 1, _record(step, success=1))
    _start(log, 2, 1, 10)
    append_record(log, 1, _record(30, success=1))
    append_record(log, 2, _record(20, success=2))
    records = read_records(log).records
    assert [(r.step, r.successes[0]) for r in records] == [(0, 1), (10, 1), (20, 2)]


def test_warnings_of_an_overtaken_attempt_do_not_count(log: Path, tmp_path: Path) -> None:
    warnings = tmp_path / "warnings"
    assert read_warnings(warnings, log) == []
    early, late = (HealthWarning(step=s, rule="non_finite", message="nan") for s in (5, 15))
    for warning in (early, late):
        append_warning(warnings, 1, warning)
    assert read_warnings(warnings, log) == [early, late]
    _start(log, 2, 1, 10)
    assert read_warnings(warnings, log) == [early]
    append_warning(warnings, 2, late)
    assert read_warnings(warnings, log) == [early, late]


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
        line = {"kind": "attempt", "version": 2, "attempt": attempt, "parent": parent}
        attempt_file(log, attempt).write_text(json.dumps({**line, "resumed_step": 3}))
    read = read_records(log)
    # Of attempt 6, what it goes on from is named too.
    assert len(read.problems) == len(chain)
    assert "a later one" in read.problems[0]
    # The rest is read: of an attempt 6, which goes on from 5, no record counts.
    assert [r.step for r in read.records] == ([8] if len(chain) == 1 else [])


def test_what_is_lost_of_a_chain_is_named(log: Path) -> None:
    append_record(log, 1, _record(0))
    _start(log, 2, 1, 4)
    append_record(log, 2, _record(4))
    first, second = attempt_file(log, 1), attempt_file(log, 2)
    whole = second.read_text()
    head, line = whole.splitlines()
    for text in (f"{line}\n", f"{head[:20]}\n{line}\n"):
        second.write_text(text)
        read = read_records(log)
        assert [record.step for record in read.records] == [0]
        assert read.problems[-1].startswith(f"{second}: its first line, which says where")
    second.write_text(whole)
    first.unlink()
    read = read_records(log)
    assert [record.step for record in read.records] == [4]
    (problem,) = read.problems
    assert problem.startswith(f"{first}: attempt 2 goes on from its records")


@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe", b"[" * 100_000])
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
