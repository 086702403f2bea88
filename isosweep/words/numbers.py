"""Numbers as people read them: amounts with units, intervals, durations, lists and shares."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from isosweep.compute import BudgetUnit
from isosweep.pricing import Pricing

UNITS: dict[BudgetUnit, str] = {
    "flops": "FLOPs",
    "rollouts": "rollouts",
    "tokens": "tokens",
    "device_hours": "device-hours",
}


def short(value: float) -> str:
    """Three significant digits of a number, as one writes it: 23, 1020, 1e18, 3.16e19."""
    if 1000 <= abs(value) < 10_000:
        return f"{float(f'{value:.3g}'):.0f}"
    mantissa, e, exponent = f"{value:.3g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if e else mantissa


def amount(value: float, unit: BudgetUnit) -> str:
    """Compute with its unit: 1e18 FLOPs."""
    return f"{short(value)} {UNITS[unit]}"


def interval(
    median: float, low: float, high: float, *, below: bool = False, above: bool = False
) -> str:
    """A median and its interval: 23 (8 to 51); where the value may lie `below` or `above` all that
    was run, 4 (4 or less to 7), 76 (54 to 128+)."""
    first = f"{few(low)} or less" if below else few(low)
    last = f"{few(high)}+" if above else few(high)
    return f"{few(median)} ({first} to {last})"


def few(value: float) -> str:
    """A number whose interval says how sure it is: 76, else as `short`."""
    return f"{value:.0f}" if 10 <= abs(value) < 1000 else short(value)


def duration(seconds: float) -> str:
    """A duration in one unit: 40 s, 12 min, 3.5 h, 2.1 d."""
    for length, unit, digits in ((86400, "d", 1), (3600, "h", 1), (60, "min", 0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.{digits}f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def of_planned(step: int, planned: int) -> str:
    """Steps done of those planned: 40/63; or 64 (63 planned) of a run that took more, which may be:
    runs end by measured compute."""
    return f"{step:,}/{planned:,}" if step <= planned else f"{step:,} ({planned:,} planned)"


def moment(unix_time: float) -> str:
    """A date and time, local: 2026-11-25 13:20:00."""
    return f"{datetime.fromtimestamp(unix_time):%Y-%m-%d %H:%M:%S}"


def in_hours(hours: float) -> str:
    """Device time, which is paid for by the hour: 40 s, 12 min, 3.5 h, 3,010 h."""
    if hours < 2:
        return duration(hours * 3600)
    return f"{_to_digits(hours, 3):,.0f} h" if hours >= 10 else f"{hours:.1f} h"


def in_dollars(dollars: float) -> str:
    """US dollars: under $0.01, $0.42, $7, $7,560."""
    if 0 < dollars < 0.005:
        return "under $0.01"
    return (
        f"${_to_digits(dollars, 3):,.0f}"
        if dollars >= 10
        else f"${dollars:.2f}".removesuffix(".00")
    )


def predicted_time(hours: float, pricing: Pricing) -> str:
    """A predicted time, and the range that it may come to: 2,130 h (1,400 to 3,200)."""
    # Both ends in the unit of what they are around: `in_hours`.
    unit, digits = (1.0, 1) if hours >= 2 else (1 / 60, 0) if hours >= 2 / 60 else (1 / 3600, 0)
    low, high = (_to_digits(hours * factor / unit, 2) for factor in pricing.spread)
    return in_hours(hours) + _range(
        *(f"{end:,.0f}" if end >= 10 else f"{end:.{digits}f}" for end in (low, high))
    )


def price_parts(hours: float, pricing: Pricing, *, predicted: bool = True) -> list[str]:
    """Device time and, if that is known, what it costs; `predicted`: with the ranges that they may
    come to."""
    parts = [predicted_time(hours, pricing) if predicted else in_hours(hours)]
    if (dollars := pricing.dollars(hours)) is not None:
        ends = [in_dollars(_to_digits(dollars * factor, 2)) for factor in pricing.spread]
        parts.append(in_dollars(dollars) + (_range(*ends) if predicted else ""))
    return parts


def price(hours: float, pricing: Pricing, *, predicted: bool = True) -> str:
    """`price_parts` on one line: 2,130 h (1,400 to 3,200), $6,390 ($4,300 to $9,600)."""
    return ", ".join(price_parts(hours, pricing, predicted=predicted))


def _range(low: str, high: str) -> str:
    """In brackets, where it has two ends."""
    return "" if low == high else f" ({low} to {high})"


def _to_digits(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def size(count: float) -> str:
    """Bytes in the unit that reads best: 18.5 GB."""
    units = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6))
    unit, divisor = next(unit for unit in units if count >= unit[1] or unit == units[-1])
    return f"{count / divisor:,.3g} {unit}"


def listed(values: Sequence[object], word: str = "and") -> str:
    """Values in a row: 4, 8 and 16."""
    *others, last = map(str, values)
    return f"{', '.join(others)} {word} {last}" if others else last


def ns(values: Sequence[object]) -> str:
    """Return a list of n: n = 4, 8, 16."""
    return f"n = {', '.join(map(str, values))}"


def ns_and(values: Sequence[object]) -> str:
    """Return a list of n within a sentence: n = 4, 8 and 16."""
    return f"n = {listed(values)}"


def plural(count: int, word: str) -> str:
    """Return a count of things: 1 run, 18 runs."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def tally(counts: Mapping[Any, int], collapsed: int = 0) -> str:
    """Return how many runs stand how: 2 not begun, 28 done, 3 of them collapsed."""
    shown = [f"{count} {standing}" for standing, count in counts.items() if count]
    if collapsed:
        shown.append(f"{collapsed} of them collapsed")
    return ", ".join(shown) or "none"


def setting(value: object) -> str:
    """The value of a setting as it is typed: 64, [20500,1e20], qwen-7b, true, null."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{','.join(map(setting, value))}]"
    return f"{value:.12g}".replace("e+", "e") if isinstance(value, float) else str(value)


def percent(share: float) -> str:
    """A share in per cent, with a digit more below 10%; one that rounds to nothing is a bound."""
    if 0 < share < 0.0005:
        return "under 0.1%"
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"


def in_steps(share: float) -> int:
    """A share of simulated sweeps in per cent, in steps of 5: it is known to about 10."""
    return 5 * round(20 * share)


def of_100(share: float) -> str:
    """A share as so many of 100, in steps of 5: about 35, under 5, over 95."""
    number = in_steps(share)
    return f"about {number}" if 5 <= number <= 95 else "under 5" if number < 5 else "over 95"
