"""What a sweep's models answered can be read by command, in Python and in the report."""

import json
from pathlib import Path

import pytest

import isosweep
from tests.commands import in_process

pytestmark = pytest.mark.train


def test_answers_of_every_record_are_read_by_command_and_in_python(straight: Path) -> None:
    (root,) = (each.parent for each in straight.glob("sweeps/*/plan.json"))
    sweep = isosweep.open(root)
    records, kept = sweep.records, sweep.completions
    heldout = kept[kept["source"] == "heldout"]
    # Eight problems, and two samples of each.
    assert len(heldout) == len(records) * 8 * 2
    assert {*heldout["spent"]} == {*records["spent"]}
    assert heldout["problem"].nunique() == 8
    right = heldout["completion"] == heldout["reference"]
    assert (right == (heldout["reward"] == 1)).all()
    rollouts = kept[kept["source"] == "training"]
    assert rollouts["advantage"].notna().all()
    assert (rollouts["step"] > 0).all()

    run = records["run_id"].iloc[0]
    words = ("mode=status", f"sweep={root}", f"runs={run}")
    shown = json.loads(in_process((*words, "format=json"), straight).stdout)["completions"]
    own = heldout[(heldout["run_id"] == run) & (heldout["step"] == shown["step"])]
    assert shown["step"] == records[records["run_id"] == run]["step"].max()
    assert shown["best"]["reward"] >= shown["worst"]["reward"]
    assert {shown["best"]["text"], shown["worst"]["text"]} <= {*own["completion"]}
    printed = in_process(words, straight).stdout
    assert f"answers at step {shown['step']} to problem {shown['problem_id']}:" in printed
    assert f"  | {shown['best']['text']}" in printed


def test_the_report_shows_answers(straight: Path) -> None:
    (path,) = straight.glob("sweeps/*/analysis/report.html")
    page = path.read_text(encoding="utf-8")
    assert "What the models said" in page
    assert page.count("<summary>Problem sort-") == 8
