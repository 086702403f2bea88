"""A tuned setting: `tuning.json`, figures, and a page that says what to set and how surely."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict

from isosweep.analysis.columns import MISSING, PageTable, page_table, span, written
from isosweep.analysis.course import Course
from isosweep.analysis.figures.draw_matplotlib import write_figures
from isosweep.analysis.figures.tuning import cell_label, tuning_figures
from isosweep.analysis.pages.render import render
from isosweep.analysis.statistics.tuning import RateRule, Tried, TunedAt, Tuning
from isosweep.analysis.tuned import TunedCell
from isosweep.config.analysis import FigureWidth
from isosweep.files import to_json, write_json, write_text
from isosweep.store.paths import SweepPaths
from isosweep.words.numbers import UNITS, short


def write_tuning(
    tuning: Tuning,
    cells: Sequence[TunedCell],
    paths: SweepPaths,
    formats: Collection[str],
    *,
    handed: Mapping[str, object],
    margin: float,
    course: Course | None,
    width: FigureWidth = "two_columns",
) -> None:
    """Write what was found into `paths.analysis`, replacing what was there; `handed`: the settings
    for the grid."""
    figures = tuning_figures(tuning, cells, course)
    write_figures(figures, paths.figures, formats, width)
    write_json(paths.tuning, to_json(asdict(tuning) | {"settings_for_the_grid": dict(handed)}))
    page = render(
        "tuning.html",
        "isosweep: " + ", ".join(tuning.settings) + " tuned",
        summary=summarise(tuning, margin),
        handed=as_overrides(handed),
        drawn=figures,
        tried=[
            (f"{cell_label(at)} at {short(at.budget)} {UNITS[tuning.unit]}", _tried_table(at))
            for at in (*tuning.cells, *reversed(tuning.courses))
        ],
        cells=len(tuning.cells),
        rules=_rule_table(tuning),
        preferences=_preference_table(tuning),
    )
    write_text(paths.report, page)


def as_overrides(handed: Mapping[str, object]) -> str:
    """Settings as the command line takes them."""
    return " ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in handed.items()
    )


def summarise(tuning: Tuning, margin: float) -> list[str]:
    """What was found, a sentence each, the answer first."""
    if not tuning.cells:
        return ["No run has come as far as a budget yet, so nothing is known of any value."]
    sentences = [_best(tuning, at, margin) for at in tuning.cells]
    if tuning.untried:
        values = ", ".join(_values(values) for values in tuning.untried)
        sentences.append(
            f"Not every value was tried at every cell, for search.max_compute was spent: {values}. "
            "Until they are, nothing is recommended; a larger limit goes on from here."
        )
    if tuning.rules:
        sentences.append(_rules(tuning, margin))
    if tuning.best_gain is not None:
        sentences.append(_moved(tuning))
    spent = f"{short(tuning.compute)} {UNITS[tuning.unit]}"
    return [
        *sentences,
        f"This took {spent}, {tuning.share:.0%} of training every value at every seed to the end.",
    ]


def _named(tried: Tried) -> str:
    return ", ".join(f"{name} = {value:g}" for name, value in tried.values.items())


def _best(tuning: Tuning, at: TunedAt, margin: float) -> str:
    where = f"At {cell_label(at)} and {short(at.budget)} {UNITS[tuning.unit]}"
    best, base = at.best, tuning.base_reward
    before = "" if base is None else f" ({base:.3f} before training)"
    if not at.learns(base):
        reached = best.mean if best.expected is None else best.expected
        return (
            f"{where}, no value that was tried learns anything: the best, {_named(best)}, comes to "
            f"{reached:.3f}{before}. grid.axes is to list others, smaller rates as a rule."
        )
    if best.expected is None or best.interval is None:
        return (
            f"{where}, {_named(best)} has the largest mean reward, {best.mean:.3f}{before}; how "
            "surely is not known, for no two seeds of a value can be compared."
        )
    low, high = best.interval
    first = tuning.settings[0]
    rank, chance = f"is the only {first} with records", ""
    if best.probability_best is not None:
        rank = "is best"
        chance = f", with a chance of {best.probability_best:.0%} to be the best of those tried"
    line = (
        f"{where}, {_named(best)} {rank}: expected reward {best.expected:.3f} [{low:.3f}, "
        f"{high:.3f}]{before}{chance}"
    )
    if at.optimum is not None:
        words = at.optimum.open_words(below=at.open_below, above=at.open_above)
        line += f"; between values too, {first} is best at {words}"
        ends = [
            word
            for word, is_open in (("smaller", at.open_below), ("larger", at.open_above))
            if is_open
        ]
        if ends:
            line += f", so that {' and '.join(ends)} values are to be tried (grid.axes)"
    close = [t for t in at.tried if t is not best and t.loss is not None and t.loss <= margin]
    if close:
        values = ", ".join(
            " x ".join(f"{value:g}" for value in tried.values.values()) for tried in close
        )
        line += f". No more than {margin:g} is expected to be lost by {values}"
    return f"{line}."


def _rules(tuning: Tuning, margin: float) -> str:
    anchor, second = tuning.cells
    products = [at.num_generations * at.problems_per_batch for at in (anchor, second)]
    between = f"From n x B = {products[0]} to {products[1]}, and no further"
    agrees = [rule.rule for rule in tuning.rules if rule.agrees]
    others = [rule.rule for rule in tuning.rules if not rule.agrees]
    if tuning.exponent is None:
        line = (
            f"{between}, how the best rate goes with n x B is not known: it may lie beyond the "
            "values tried at one of the cells"
        )
    else:
        power = tuning.exponent.open_words(
            below=tuning.exponent_open_below, above=tuning.exponent_open_above
        )
        line = f"{between}, the best rate goes as (n x B) to the power {power}, which agrees with "
        if agrees:
            line += f"the rule {_or(agrees)}"
            line += f" and not with {_or(others)}" if others else ": the data cannot tell which"
        else:
            line += "none of the rules constant, sqrt and linear"
    costs = ", ".join(f"{rule.rule} {_lost(rule, margin)}" for rule in tuning.rules)
    return f"{line}. Reward that each rule is expected to lose at the second cell: {costs}."


def _lost(rule: RateRule, margin: float) -> str:
    if rule.loss is None or rule.loss_upper is None:
        return "not known (beyond the values tried there)"
    harmless = ", harmless" if rule.loss_upper <= margin else ""
    return f"{rule.loss:.3f} (at most {rule.loss_upper:.3f}{harmless})"


def _or(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _moved(tuning: Tuning) -> str:
    """How the choice decides between the two n."""
    anchor, second = tuning.cells
    gain = tuning.best_gain
    assert gain is not None
    what = f"n = {second.num_generations} over n = {anchor.num_generations}"
    line = (
        f"Each with its own best value, the gain of {what} is {_signed(gain.median)} "
        f"[{_signed(gain.low)}, {_signed(gain.high)}]"
    )
    shared = sorted(tuning.preferences, key=lambda preference: preference.gain.median)
    if len(shared) < 2:
        return f"{line}."
    low, high = shared[0], shared[-1]
    line += (
        f"; with one value for both it goes from {_signed(low.gain.median)} at "
        f"{_values(low.values)} to {_signed(high.gain.median)} at {_values(high.values)}"
    )
    if low.gain.high < 0 < high.gain.low:
        line += ": which of the two n is better depends on the value"
    return f"{line}."


def _values(values: Mapping[str, float]) -> str:
    return " x ".join(f"{value:g}" for value in values.values())


def _signed(value: float) -> str:
    return f"{value:+.3f}"


def _tried_table(at: TunedAt) -> PageTable:
    rows = [
        (
            _values(tried.values),
            f"{tried.mean:.4f}",
            tried.num_seeds,
            tried.num_fallen,
            written(".4f")(tried.expected),
            span(*(tried.interval or (None, None))),
            written(".4f")(tried.loss),
            written(".0%")(tried.probability_best),
        )
        for tried in at.tried
    ]
    names = " x ".join(at.best.values)
    head = (names, "mean", "seeds", "fell", "expected", "interval", "lost", "chance best")
    return page_table(head, rows)


def _rule_table(tuning: Tuning) -> PageTable:
    rows = [
        (
            rule.rule,
            f"{rule.exponent:g}",
            MISSING if rule.agrees is None else ("yes" if rule.agrees else "no"),
            written(".4f")(rule.loss),
            written(".4f")(rule.loss_upper),
        )
        for rule in tuning.rules
    ]
    head = ("rule", "exponent", "agrees", "reward lost", "at most")
    return page_table(head, rows, left=(0, 2))


def _preference_table(tuning: Tuning) -> PageTable:
    rows = [
        (_values(p.values), *(_signed(v) for v in (p.gain.median, p.gain.low, p.gain.high)))
        for p in tuning.preferences
    ]
    return page_table((" x ".join(tuning.settings), "gain of the second", "low", "high"), rows)
