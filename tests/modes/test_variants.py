"""Variants of one sweep: each analysed by itself, and all of them side by side in one report."""

import json
import re
from pathlib import Path

import pytest

from tests.commands import in_process
from tests.conftest import SMALL
from tests.modes.sweeps import QUIET, write_records

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
    assert "Its verdict" in page
    for name in ("all", "without_clip", "of the group"):
        for text in (page, printed):
            assert re.search(rf"At \S+ device-hours, {name} reaches 0\.\d+", text)
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
