"""The page of the Playbook's points says what the binned points that are shipped say."""

import importlib
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

DOCS = Path(__file__).parent.parent.parent / "docs"


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(DOCS / "studies")
    return importlib.import_module("playbook_points")


def test_the_shipped_bins_have_all_points_but_not_the_points(study: ModuleType) -> None:
    shipped = pd.read_csv(study.TABLE)
    assert shipped["points"].sum() == 6209
    assert len(shipped) < 700
    for reading in ("split", "without", "colour"):
        kept = study.read(shipped, reading)
        assert not kept.duplicated(["B", "n", "bin"]).any()
        lost = 6209 - kept["points"].sum()
        # Late dots; without n = 32 also all of its colour, and the low dots of n = 8.
        assert lost == {"split": 19, "colour": 0}.get(reading, lost) <= 800


def test_points_are_binned_by_branch(study: ModuleType, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    compute = np.geomspace(0.3, 3.9, 200)
    rewards = {16: 0.58, 32: 0.59}
    dots = [
        (32, n, C, level + rng.normal(0, 0.005)) for n, level in rewards.items() for C in compute
    ]
    dots += [(32, 32, C, 0.52 + rng.normal(0, 0.005)) for C in compute[::10]]
    dots += [(64, *each[1:]) for each in dots]
    names = ["value", "n", "C_million_rollouts", "validation_reward"]
    pd.DataFrame(dots, columns=names).to_csv(tmp_path / "dots.csv", index=False)
    bins = study.bin_points(tmp_path / "dots.csv")
    assert bins["points"].sum() == len(dots)
    late = bins[bins["part"] == "late"]
    assert set(late["n"]) == {16}
    assert late["rollouts"].min() > 10**6.5
    split = study.read(bins, "split")
    large = split[(split["B"] == 32) & (split["n"] == 1024)]
    assert large["reward"].between(0.50, 0.54).all()
    assert large["points"].sum() == sum(C < 10**0.34 for C in compute[::10])
    assert set(study.read(bins, "without")["n"]) == {16}


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
    assert str(sweep.verdict).startswith(f"{written[1]}:")
    assert found == written[2]
