"""A total chooses budgets and seeds, and the sweep is that of the same settings typed."""

import re
from pathlib import Path

from tests.contract.surface import document_of, isosweep, refused

GRID = ("grid.num_generations=[4,8,16,32]", "task.num_eval_problems=128")
TOTAL = (*GRID, "total=1h")


def test_a_total_is_the_sweep_of_its_budgets_and_seeds(tmp_path: Path) -> None:
    said = isosweep("mode=plan", *TOTAL, cwd=tmp_path).stdout
    chosen, why, others = said.splitlines()[:3]
    assert re.match(
        r"total: budget=\[.*\] grid\.seeds=\[.*\] take .* of the total \(60 min", chosen
    )
    assert re.match("why: about .* of 100 simulated sweeps decide whether growth has ended", why)
    assert re.match("half as much: .* of 100, budget=.*; twice as much: .* of 100, budget=", others)
    (plan,) = tmp_path.glob("sweeps/*/plan.json")
    before = plan.read_bytes(), plan.with_name("config.json").read_bytes()
    # As budgets and seeds, and a second time.
    typed = re.findall(r"(?:budget|grid\.seeds)=\[[^]]*\]", chosen)
    assert len(typed) == 2
    assert isosweep("mode=plan", *GRID, *typed, cwd=tmp_path).stdout in said
    assert isosweep("mode=plan", *TOTAL, cwd=tmp_path).stdout == said
    assert [*tmp_path.glob("sweeps/*/plan.json")] == [plan]
    assert (plan.read_bytes(), plan.with_name("config.json").read_bytes()) == before
    # And as it is launched.
    dry = isosweep("mode=launch", "dry_run=true", *TOTAL, cwd=tmp_path).stdout
    runs = {run["run_id"] for run in document_of(plan)["runs"]}
    assert {run_id for run_id in runs if run_id in dry} == runs
    limited = refused(*TOTAL, "launcher.max_device_hours=0.5", cwd=tmp_path)
    assert "launcher.max_device_hours=0.5: " in limited
