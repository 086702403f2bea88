"""What the sweep's own run in MLflow says of what came of it."""

from pathlib import Path

from isosweep.files import write_json, write_text
from isosweep.modes.tracking import sweep_overview
from isosweep.tracking.points import budget_metric
from isosweep.words.tracking import answer
from tests.modes.looked_after import sweep_in
from tests.words.answers import ANSWER


def test_an_analysed_sweep_says_what_the_report_says_first(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    sweep.paths.analysis.mkdir(parents=True, exist_ok=True)
    write_json(sweep.paths.answer, ANSWER.document())
    lasted = sweep.plan.runs[0].run_id
    last = sweep.plan.budgets[-1]
    readings = [f"{lasted},{last},0.5,exact", f"{lasted},{last / 3},0.4,between"]
    write_text(sweep.paths.frontier, "\n".join(["run_id,budget,reward,reading", *readings]))
    write_text(sweep.paths.table("choices"), "budget,n")
    own, variant = sweep.paths.analysis / "figures", sweep.paths.analysis / "beta=0" / "figures"
    for figure in (own / "a.png", own / "a.svg", variant / "a.png"):
        figure.parent.mkdir(parents=True, exist_ok=True)
        figure.touch()
    overview = sweep_overview(sweep)
    figures = {(own / "a.png", "figures"), (variant / "a.png", "figures/beta=0")}
    assert {pair for pair in overview.files if pair[1]} == figures
    *said, report = overview.note.split("\n\n")
    assert said == answer(ANSWER)
    assert (overview.tags[None]["verdict"], overview.tags[None]["best_n"]) == ("saturated", "16")
    n_star, n_d = overview.tags[None]["n_star"], overview.tags[None]["n_d"]
    assert (n_star, n_d) == ("32 (16 to 64+)", "16 (8 to 32)")
    assert report == f"Report: `{sweep.paths.report}`"
    assert overview.tags[None]["runs"] == f"{len(sweep.plan.runs)} not begun"
    (name,) = overview.metrics[lasted]
    assert (name, overview.metrics) == (
        budget_metric(last, sweep.plan.budgets),
        {lasted: {name: 0.5}},
    )
    tables = {sweep.paths.frontier, sweep.paths.table("choices"), sweep.paths.answer}
    assert tables <= {file for file, folder in overview.files if not folder}
