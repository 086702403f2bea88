"""The page of the Playbook's points says what the binned points that are shipped say."""

import importlib
import re
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

DOCS = Path(__file__).parent.parent.parent / "docs"


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(DOCS / "studies")
    return importlib.import_module("playbook_points")


@pytest.mark.slow
def test_the_tables_of_the_page_are_what_the_shipped_bins_show(study: ModuleType) -> None:
    text = (DOCS / "playbook_points.md").read_text(encoding="utf-8").replace("\\*", "*")
    written = [line for line in text.splitlines() if line.startswith("| ")]
    shipped = pd.read_csv(study.TABLE)
    tables = study.tables(shipped, study.read_all(shipped))
    computed = [
        f"| {' | '.join(line)} |" for name in ("B = 32", "every B") for line in tables[name]
    ]
    # Of B = 32 the page has every other row or so.
    assert written == [line for line in computed if line in written]
    assert len(written) == 8 + 8
    # "All 19 of our 90% intervals contain them."
    inside = [line[3] for name in ("B = 32", "all B") for line in tables[name][1:]]
    assert inside == ["yes"] * 19
    # Numbers that its sentences quote.
    for name, row, cell in (
        ("growth", 1, 1),
        ("growth", 2, 1),
        ("best B", -1, 2),
        ("colours", -1, 3),
        ("colours", -1, 4),
    ):
        assert tables[name][row][cell].replace("+0", "0") in text


@pytest.mark.slow
def test_the_page_quotes_the_verdict_of_the_imported_sweep(
    study: ModuleType, tmp_path: Path
) -> None:
    sweep = study.store(pd.read_csv(study.TABLE), tmp_path / "playbook")
    assert len(sweep.runs) == 18
    last = sweep.frontier.iloc[-1]
    found = f"n_d = {last['n_d']:.0f} ({last['n_d_low']:.0f} to {last['n_d_high']:.0f}) at 3.55M"
    page = (DOCS / "playbook_points.md").read_text(encoding="utf-8")
    written = re.search(r"The verdict is `(\w+)`: (n_d = .* at 3\.55M)", page)
    assert written is not None
    assert f"\n{written[1]}: " in str(sweep.verdict)
    assert found == written[2]
