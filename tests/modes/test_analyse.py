"""What an analysis leaves: documents, views in trackers, and variants side by side in a report."""

import json
import re
from pathlib import Path

import pytest

from isosweep.files import write_json, write_text
from isosweep.modes.dispatch import prepare
from isosweep.modes.tracking import sweep_overview
from isosweep.tracking.points import budget_metric
from isosweep.words.tracking import answer
from tests.commands import in_process
from tests.conftest import SMALL, make_config
from tests.contract.surface import write_csv
from tests.modes.looked_after import printed, sweep_in, terminal
from tests.modes.sweeps import QUIET, write_records
from tests.words.answers import ANSWER


def test_a_view_is_made_in_wandb_offline_and_the_command_that_sends_it_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"ERROR_REPORTING": "false", "CACHE_DIR": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    sweeps = tmp_path / "sweeps"
    asked = ("tracking=none", f"sweeps_dir={sweeps}", *SMALL)
    assert prepare(make_config("mode=plan", *asked))(terminal()) == 0
    write_records(tmp_path)
    console = terminal(300)
    (root,) = (path.parent for path in sweeps.glob("*/plan.json"))
    here = (f"sweep={root}", "tracking=wandb", "tracking.offline=true")
    assert prepare(make_config("mode=analyse", *here))(console) == 0
    said = [line for line in printed(console).splitlines() if "wandb sync" in line]
    assert said == [f"dashboard: after wandb sync {root}/wandb/*run-*"]
    runs = len(json.loads((root / "plan.json").read_text())["runs"])
    assert len(list((root / "wandb").glob("*run-*/*.wandb"))) == runs + 1


def test_a_document_is_all_that_standard_output_has(tmp_path: Path) -> None:
    rows = (
        {"n": n, "B": 4, "seed": seed, "rollouts": at, "reward": 0.1 + 0.01 * n * at / 1e4}
        for n in (4, 8, 16)
        for seed in (0, 1)
        for at in (1000, 2000, 4000, 8000)
    )
    write_csv(tmp_path / "a.csv", rows)
    quick = ("tracking=none", "format=json")
    for command, fields in {
        "mode=import import.files=a.csv sweep=one": {"sweep", "plan_id", "imported"},
        "mode=import import.files=a.csv sweep=two": {"sweep", "plan_id", "imported"},
        "mode=analyse sweep=one": {"sweep", "variants"},
        "mode=compare sweep=[one,two]": {"sweeps", "report", "comparison"},
        "mode=next sweep=one": {"spent", "command", "steps"},
    }.items():
        done = in_process((*command.split(), *quick), tmp_path)
        assert done.returncode == 0, done.stderr
        assert fields | {"version"} <= json.loads(done.stdout).keys()


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


VARIANTS = (
    "grid.axes={variant:{all:{},without_clip:{recipe.epsilon:1.0},of the group:{recipe:grpo}}}"
)


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A sweep of three variants without training, and what its analysis prints."""
    cwd = tmp_path_factory.mktemp("variants")
    budget = ("budget_unit=device_hours", "budget=[0.001,0.002]")
    in_process(("mode=plan", *SMALL, *QUIET, *budget, "grid.tolerance=0.3", VARIANTS), cwd)
    write_records(cwd)
    printed = in_process(("mode=analyse", *QUIET), cwd).stdout
    (plan,) = cwd.glob("sweeps/*/plan.json")
    return plan.parent, printed


def test_one_report_sets_all_variants_side_by_side(analysed: tuple[Path, str]) -> None:
    sweep, printed = analysed
    report = sweep / "analysis" / "report.html"
    assert f"side by side, at all budgets: {report}" in printed
    page = report.read_text()
    assert "Best of every variant" in page
    for name in ("all", "without_clip", "of the group"):
        for text in (page, printed):
            assert re.search(rf"{name}\W.*not identified", text)
    assert 'id="figure-comparison_reward"' in page
    document = json.loads((sweep / "analysis" / "comparison.json").read_text())
    assert document["kind"] == "variant"
    assert set(document["verdicts"]) == {"all", "without_clip", "of the group"}
    links = re.findall(r'<a href="([^"]+)">of the group</a>', page)
    assert links == ["variant%3Dof%20the%20group/report.html"]


def test_every_variant_keeps_a_report_of_its_own(analysed: tuple[Path, str]) -> None:
    sweep, _ = analysed
    own = (sweep / "analysis" / "variant=of the group" / "report.html").read_text()
    assert "of the group" in own.partition("</title>")[0]
    # Its settings are those of the variant: GRPO's own KL term, where the sweep has none.
    cells = re.findall(r"<td[^>]*>recipe\.(name|beta)</td><td[^>]*>([^<]*)</td>", own)
    assert dict(cells) == {"name": "grpo", "beta": "0.04"}
