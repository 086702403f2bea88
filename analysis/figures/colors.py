"""Every colour that figures use, on white and on black, and the map from one to the other.

Figures are drawn in light colours. Each has exactly one dark counterpart, so that a drawn figure
turns dark by exchanging colours alone, in a file and in the report's page.
"""

from collections.abc import Sequence

# Ink, lines in the background, grid lines, and the ground of the figure.
INK, GREY, GRID, GROUND = "#111111", "#8a8a8a", "#dddddd", "#ffffff"
# Okabe and Ito (2008), distinguished by the colour-blind: sky blue, vermilion and bluish green are
# used in their darker or lighter form, whichever stands out from the ground.
BLUE, RED, GREEN = "#0072b2", "#d55e00", "#00805f"
# Letters on a bright cell of a heat map. On black all cells are bright, so those for dark cells
# (GROUND) and these turn into the same.
ON_BRIGHT = "#1a1a1a"
_NEUTRAL_AND_NAMED = {
    INK: "#ededed",
    GREY: "#8f9399",
    GRID: "#33373d",
    GROUND: "#15171b",
    ON_BRIGHT: "#15171b",
    BLUE: "#56b4e9",
    RED: "#ff8f3d",
    GREEN: "#2bc49a",
}

# Viridis (matplotlib, CC0) at even steps: readable in grey and for the colour-blind. On white its
# yellow end is left out; on black it starts from a light blue instead of purple: neither end
# would be seen.
_ON_WHITE = ("#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0b21a")
_ON_BLACK = ("#4a6fd0", "#3489b5", "#20a486", "#42be71", "#75d054", "#b8de29", "#fde725")
_STEPS = 120


def _blend(anchors: Sequence[str], share: float) -> str:
    """The colour at `share` of the way along the anchors."""
    position = share * (len(anchors) - 1)
    low = min(int(position), len(anchors) - 2)
    part = position - low
    pair = [[int(color[i : i + 2], 16) for i in (1, 3, 5)] for color in anchors[low : low + 2]]
    mixed = [round((1 - part) * a + part * b) for a, b in zip(*pair, strict=True)]
    return "#" + "".join(f"{value:02x}" for value in mixed)


SCALE = tuple(_blend(_ON_WHITE, i / _STEPS) for i in range(_STEPS + 1))
# Light colour to dark colour.
DARK = {
    **{color: _blend(_ON_BLACK, i / _STEPS) for i, color in enumerate(SCALE)},
    **_NEUTRAL_AND_NAMED,
}


def sequential(count: int) -> tuple[str, ...]:
    """`count` colours of the scale, dark to light, evenly spaced."""
    last = max(1, count - 1)
    return tuple(SCALE[round(i * _STEPS / last)] for i in range(count))


def luminance(color: str) -> float:
    """Relative luminance from 0 (black) to 1 (white), as WCAG 2.2 defines it."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio from 1 (the same) to 21 (black on white), as WCAG 2.2 defines it."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
