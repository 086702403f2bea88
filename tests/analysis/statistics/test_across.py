"""What a law across entries is fitted to, and why it is not identified, in words."""

from typing import Any, cast, get_args

import pytest

from isosweep import words
from isosweep.analysis.statistics.across import Across, Failure, Group, Unidentified, number_set
from isosweep.analysis.statistics.entries import Entry
from isosweep.analysis.statistics.moves import At

# By the amounts that only it has, as a document holds them.
LAWS: dict[str, dict[str, object]] = {
    "sizes": {"sizes": (1e9, 7e9), "num_generations": 8, "problems_per_batch": 4},
    "reuse": {"passes": (1, 4), "budget": 1e18, "num_generations": 8, "problems_per_batch": 4},
    "updates": {"updates": (1, 4), "num_generations": 8, "problems_per_batch": 4},
    "joint": {"updates": (1, 4), "batches": (4, 8), "num_generations": 8},
}


@pytest.mark.parametrize("law", LAWS)
def test_every_kind_of_failure_is_worded_and_no_two_alike(law: str) -> None:
    said = {
        words.line("comparison", "sentence", {**LAWS[law], "found": vars(found)}, False, "flops")
        for kind in get_args(Failure)
        for found in [Unidentified(kind=kind, found=0.01, least=0.04, of="batch")]
    }
    assert any(
        each.endswith("a run gains only 0.010 of reward, and more than 0.04 is needed.")
        for each in said
    )
    assert len(said) == len(get_args(Failure))
    assert all(
        "is not established: " in each and each.endswith(".") and ".." not in each for each in said
    )
    of = "n = 8" if law == "joint" else "n = 8, B = 4"
    assert all(of in each for each in said)


def test_entries_of_one_amount_are_all_in_its_law() -> None:
    """Four entries of three amounts, and one that differs in something else."""
    settings = [(1, 1, 0), (4, 1, 0), (2, 1, 0), (2, 2, 0), (3, 1, 1)]
    entries = [
        Entry(
            name=f"{amount}, {other}",
            data=cast("Any", None),
            findings=cast("Any", None),
            parameters=None,
            settings={"recipe.a": amount, "recipe.b": other, "task.c": further},
        )
        for amount, other, further in settings
    ]
    row: Across[At, int, str, Group[At, int, str]] = Across(
        varied=("recipe.",),
        amount=lambda entry: number_set(entry, "recipe.a"),
        read=lambda entry, _: {At(1.0): entry.name},
        fit=lambda group: group,
    )
    (group,) = row.laws(entries, 0.02, 0.9)
    assert group.entries == group.seen == ("1, 1", "2, 1", "2, 2", "4, 1")
    assert group.labels == {"entries": group.entries, "budget": 1.0}
    assert row.laws(entries[1:], 0.02, 0.9) == ()
