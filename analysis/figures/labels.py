"""Words beside the ends of lines, moved apart so that none covers another."""

import math
from collections.abc import Sequence
from dataclasses import replace

from isosweep.analysis.figures.description import EndLabel

# Height of a line of words, as a share of the figure's height.
_LINE = 0.055


def spread(labels: Sequence[EndLabel], limits: tuple[float, float]) -> tuple[EndLabel, ...]:
    """`labels`, those of each group moved apart, inside the `limits` of the axis of y."""
    groups = list(dict.fromkeys(label.groups for label in labels))
    return tuple(
        moved
        for group in groups
        for moved in _spread([label for label in labels if label.groups == group], limits)
    )


def _spread(labels: Sequence[EndLabel], limits: tuple[float, float]) -> list[EndLabel]:
    low, high = limits
    ordered = sorted(labels, key=lambda label: label.y)
    own = [(label.y - low) / (high - low) for label in ordered]
    places = _apart(own, _LINE)
    return [
        replace(label, shift=place - at)
        for label, place, at in zip(ordered, places, own, strict=True)
    ]


def _apart(wanted: Sequence[float], gap: float) -> list[float]:
    """Ascending places at least `gap` apart, as near to those `wanted`, ascending, as can be.

    Neighbours that would overlap form a block around their mean.
    """
    blocks: list[tuple[float, int]] = []  # (middle, how many)
    for place in wanted:
        blocks.append((place, 1))
        while len(blocks) > 1 and _overlap(blocks[-2], blocks[-1], gap):
            (one, many), (other, more) = blocks[-2:]
            blocks[-2:] = [((one * many + other * more) / (many + more), many + more)]
    return [middle + gap * (i - (many - 1) / 2) for middle, many in blocks for i in range(many)]


def _overlap(one: tuple[float, int], other: tuple[float, int], gap: float) -> bool:
    distance = other[0] - one[0]
    return distance < gap * (one[1] + other[1]) / 2 and not math.isclose(distance, gap)


def padded(values: Sequence[float], share: float = 0.06) -> tuple[float, float]:
    """Limits around finite `values`, with room on both sides."""
    known = [value for value in values if math.isfinite(value)]
    low, high = min(known), max(known)
    room = share * (high - low) or 0.05
    return low - room, high + room
