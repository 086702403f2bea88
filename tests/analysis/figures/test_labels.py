"""Words beside lines do not cover each other, and stay as near to their lines as they can."""

from itertools import pairwise

import pytest

from isosweep.analysis.figures.axes import round_ticks
from isosweep.analysis.figures.description import EndLabel
from isosweep.analysis.figures.labels import padded, spread


def label(y: float, group: str = "one") -> EndLabel:
    return EndLabel(x=1.0, y=y, text=str(y), color="#111111", groups=(group,))


def test_labels_that_would_overlap_are_moved_apart_around_their_mean() -> None:
    moved = spread([label(0.5), label(0.5), label(0.51), label(0.9)], (0.0, 1.0))
    places = [each.y + each.shift for each in moved]
    assert all(b - a > 0.054 for a, b in pairwise(places))
    assert sum(places[:3]) == pytest.approx(0.5 + 0.5 + 0.51)
    assert moved[3].shift == 0.0


def test_labels_of_groups_that_are_not_seen_together_do_not_move_each_other() -> None:
    moved = spread([label(0.5), label(0.5, "other")], (0.0, 1.0))
    assert [each.shift for each in moved] == [0.0, 0.0]


def test_limits_leave_out_what_is_no_number_and_have_room_for_one_value() -> None:
    assert padded([0.0, float("nan"), 1.0]) == pytest.approx((-0.06, 1.06))
    low, high = padded([0.3])
    assert low < 0.3 < high


@pytest.mark.parametrize(
    ("ends", "labels"),
    [
        ((8e18, 4e20), ["1e19", "2e19", "5e19", "1e20", "2e20"]),
        ((1e10, 9e12), ["1e10", "3e10", "1e11", "3e11", "1e12", "3e12"]),
        ((1e8, 1e17), ["1e8", "1e10", "1e12", "1e14", "1e16"]),
        ((2.2e9, 2.7e9), ["2.2e9", "2.7e9"]),
    ],
)
def test_ticks_of_compute_are_round_numbers(ends: tuple[float, float], labels: list[str]) -> None:
    assert [text for _, text in round_ticks(*ends, 8)] == labels
