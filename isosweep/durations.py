"""Durations as people read them."""


def in_words(seconds: float) -> str:
    """A duration in one unit: 40 s, 12 min, 3.5 h, 2.1 d."""
    for size, unit, digits in ((86400, "d", 1), (3600, "h", 1), (60, "min", 0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
