"""One figure of the report: what it is called, and how matplotlib draws it in light or dark."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.colors import GREY, GRID, GROUND, INK, sequential
from isosweep.analysis.statistics.best_n import Choice
from isosweep.analysis.statistics.findings import Findings
from isosweep.compute import BudgetUnit
from isosweep.words.numbers import UNITS, amount, short

# Where it is drawn with, and not before: importing matplotlib takes long.
if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.axes import Axes

_Value = TypeVar("_Value")
# Sections of the report's page that have figures, in the page's order.
Section = Literal["Answer", "Best n", "Reward", "Curves", "Search", "Training"]
# An x, a y, and the words that pointing at them shows.
Point = tuple[float, float, str]
# Height of a line of words, as a share of the height of the axes.
_LINE = 0.065


@dataclass(frozen=True, kw_only=True)
class Figure:
    """`draw`: one function for each panel, which draws on the axes of a canvas."""

    title: str
    caption: str
    draw: tuple[Callable[["Canvas"], None], ...]

    def drawn(
        self,
        size: tuple[float, float],
        tone: Mapping[str, str] | None = None,
        *,
        title: bool = False,
    ) -> tuple["matplotlib.figure.Figure", dict[str, str]]:
        """The figure, `size` inches wide and high if it has one panel, and the words of its marks
        by the id that they have in an SVG. `tone`: the colours to draw in, by the light ones. A
        caption has the title, unless it is written above the axes as `title`.

        matplotlib's own settings count: the caller sets those of fonts.
        """
        import matplotlib.figure
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        tone = tone or {}
        ink, grey = tone.get(INK, INK), tone.get(GREY, GREY)
        colors: Any = {
            **{"text.color": ink, "axes.labelcolor": ink, "axes.titlecolor": ink},
            **{"xtick.color": grey, "ytick.color": grey, "axes.edgecolor": grey},
            **{"xtick.labelcolor": ink, "ytick.labelcolor": ink},
            **{"grid.color": tone.get(GRID, GRID), "axes.facecolor": "none"},
            **{"axes.spines.top": False, "axes.spines.right": False},
            **{"axes.grid": True, "axes.axisbelow": True, "grid.linewidth": 0.6},
            # A name may hold a dollar sign.
            "text.parse_math": False,
        }
        width, height = size
        rows = math.ceil(len(self.draw) / 2)
        if len(self.draw) > 1:
            height = 0.7 + 0.5 * height * rows
        with rc_context(colors):
            whole = matplotlib.figure.Figure(
                figsize=(width, height), layout="constrained", facecolor=tone.get(GROUND, GROUND)
            )
            FigureCanvasAgg(whole)
            if title:
                whole.suptitle(self.title)
            tips: dict[str, str] = {}
            for i, draw in enumerate(self.draw):
                axes = whole.add_subplot(rows, min(len(self.draw), 2), i + 1)
                canvas = Canvas(axes, tone, tips)
                draw(canvas)
                canvas.finish()
            _legend(whole)
            # Once for all files: saving would work it out again.
            layout: Any = whole.get_layout_engine()
            layout.execute(whole)
            whole.set_layout_engine("none")
        return whole, tips


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A figure that would show nothing, and why, in one line."""

    reason: str


NO_BUDGET = LeftOut(reason="no run has reached a budget yet")


@dataclass(frozen=True, kw_only=True)
class ReportFigure:
    """One figure of the report: what its files are called, where it is shown, and what draws it."""

    name: str
    section: Section
    describe: Callable[[SweepData, Findings], Figure | LeftOut]


class Canvas:
    """Axes to draw on. Colours are the light ones; `tone` has those to use instead."""

    def __init__(self, axes: "Axes", tone: Mapping[str, str], tips: dict[str, str]) -> None:
        self.axes = axes
        self._tone = tone
        self._tips = tips
        self._names: list[tuple[float, float, str, str]] = []

    def line(
        self,
        x: Sequence[float],
        y: Sequence[float],
        color: str,
        *,
        width: float = 1.6,
        dash: str = "-",
        tip: str = "",
        **look: Any,
    ) -> None:
        """A line; it is interrupted where y is not a number."""
        drawn = self.axes.plot(
            *(x, y, dash), color=self._of(color), lw=width, solid_capstyle="butt", **look
        )
        self._tip(drawn[0], tip)

    def marks(
        self,
        points: Iterable[Point],
        color: str,
        marker: str = "o",
        *,
        size: float = 5.0,
        hollow: bool = False,
        label: str | None = None,
    ) -> None:
        """A mark at each point; the first one is named in the legend."""
        color = self._of(color)
        look: Any = {"mfc": "none" if hollow else color, "mew": 1.3 if hollow else 0.0}
        for i, (x, y, tip) in enumerate(points):
            drawn = self.axes.plot(
                [x], [y], marker, color=color, ms=size, label=None if i else label, **look
            )
            self._tip(drawn[0], tip)

    def bar(
        self,
        x: float,
        ends: tuple[float, float],
        color: str,
        *,
        width: float = 1.6,
        tip: str = "",
        **look: Any,
    ) -> None:
        """An upright bar from end to end."""
        self.line((x, x), ends, color, width=width, tip=tip, **look)

    def band(
        self,
        x: Sequence[float],
        low: Sequence[float],
        high: Sequence[float],
        color: str,
        opacity: float = 0.15,
    ) -> None:
        """The area between `low` and `high`, behind all lines."""
        self.axes.fill_between(x, low, high, color=self._of(color), alpha=opacity, lw=0, zorder=1)

    def level(self, y: float, label: str | None = None, color: str = GREY) -> None:
        """A dashed line at one height."""
        self.axes.axhline(y, color=self._of(color), ls="--", lw=1.0, label=label, zorder=1.5)

    def box(self, column: int, row: int, color: str | None, letters: str, text: str) -> None:
        """A cell of a heat map with its text in the colour `letters`; without a `color` bare."""
        from matplotlib.patches import Rectangle

        if color is not None:
            corner = (column - 0.5, row - 0.5)
            self.axes.add_patch(Rectangle(corner, 1, 1, color=self._of(color), lw=0))
        self.axes.text(
            *(column, row, text),
            ha="center",
            va="center",
            color=self._of(letters),
            fontsize="small",
        )

    def name_end(self, x: float, y: float, text: str, color: str) -> None:
        """Words to the right of a line's end, moved so that none covers another."""
        self._names.append((x, y, text, self._of(color)))

    def reward(self, data: SweepData) -> None:
        """The axis of reward, by the metric of `data`."""
        self.axes.set_ylabel(f"{rewarded(data)} ({data.metric}@k)")

    def compute(self, unit: BudgetUnit, low: float, high: float) -> None:
        """Compute on a logarithmic axis between two ends."""
        self.axes.set_xscale("log")
        self.axes.set_xlim(low, high)
        _set_ticks(self.axes.xaxis, round_ticks(low, high, 3 if self._is_panel else 6))
        what = "compute" if self._is_panel else "training compute per run"
        self.axes.set_xlabel(f"{what} ({UNITS[unit]})")

    def budgets(self, data: SweepData, aside: float = 1.3) -> tuple[float, float]:
        """Compute from the first budget to the last; both ends of the axis."""
        ends = min(data.plan.budgets) / aside, max(data.plan.budgets) * aside
        self.compute(data.plan.budget_unit, *ends)
        return ends

    def doublings(self, which: Literal["x", "y"], title: str, values: Iterable[int]) -> None:
        """n or B on a logarithmic axis, with a tick at each of the values."""
        ordered = sorted(set(values))
        # As many labels as fit side by side.
        room = (ordered[-1] / ordered[0]) ** (1 / (6 if self._is_panel else 12))
        axis = self.axes.xaxis if which == "x" else self.axes.yaxis
        getattr(self.axes, f"set_{which}scale")("log", base=2)
        getattr(self.axes, f"set_{which}lim")(ordered[0] / 1.3, ordered[-1] * 1.3)
        _set_ticks(axis, tuple((float(value), str(value)) for value in _spaced(ordered, room)))
        axis.set_label_text(title)

    def generations(self, which: Literal["x", "y"], values: Iterable[int]) -> None:
        """The axis of n."""
        self.doublings(which, "rollouts per problem, n", values)

    def finish(self) -> None:
        """Write the names of lines, when it is known how far the axes go."""
        names = sorted(self._names, key=lambda name: name[1])
        low, high = self.axes.get_ylim()
        wanted = [(y - low) / (high - low) for _, y, _, _ in names]
        for (x, y, text, color), place in zip(names, _apart(wanted, _LINE), strict=True):
            self.axes.annotate(
                text,
                (x, y),
                xytext=(1.03, place),
                textcoords="axes fraction",
                va="center",
                annotation_clip=False,
                fontsize="small",
                arrowprops={"arrowstyle": "-", "color": color, "lw": 0.6, "shrinkA": 0},
            )

    @property
    def _is_panel(self) -> bool:
        spec = self.axes.get_subplotspec()
        return spec is not None and spec.get_gridspec().ncols > 1

    def _of(self, color: str) -> str:
        return self._tone.get(color, color)

    def _tip(self, artist: Any, words: str) -> None:
        if words:
            name = f"tip-{len(self._tips)}"
            artist.set_gid(name)
            self._tips[name] = words


def _set_ticks(axis: Any, ticks: Sequence[tuple[float, str]]) -> None:
    from matplotlib.ticker import NullLocator

    axis.set_minor_locator(NullLocator())
    axis.set_ticks([value for value, _ in ticks], [text for _, text in ticks])


def _legend(whole: "matplotlib.figure.Figure") -> None:
    """One of all panels, below them."""
    named: dict[str, Any] = {}
    for axes in whole.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    if not named:
        return
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties

    points = FontProperties(size=rcParams["legend.fontsize"]).get_size_in_points()
    # In inches: a letter is about 0.6 of the size wide, and a mark with its room five letters.
    longest = (max(map(len, named)) + 5) * 0.6 * points / 72
    ncols = min(3, max(1, int(whole.get_figwidth() / longest)))
    whole.legend(
        *(list(named.values()), list(named)),
        loc="outside lower center",
        ncols=ncols,
        frameon=False,
        columnspacing=1.2,
    )


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


def rewarded(data: SweepData) -> str:
    """What the reward is: held-out, or on one of the further evaluation sets."""
    name = data.evaluation_set
    return "held-out reward" if name is None else f"reward on the set {name}"


def compute_words(data: SweepData, value: float) -> str:
    """Compute with its unit."""
    return amount(value, data.plan.budget_unit)


def generation_colors(generations: Sequence[int]) -> dict[int, str]:
    """One colour for each n, dark to light."""
    return dict(zip(generations, sequential(len(generations)), strict=True))


def choice_words(data: SweepData, budget: float, choice: Choice) -> str:
    """The best cell of an n at a budget, with its rewards."""
    text = (
        f"n={choice.num_generations}, B={choice.cell.problems_per_batch}, "
        f"T={choice.cell.num_steps}, {compute_words(data, budget)}\n"
    )
    if choice.expected is None or choice.interval is None:
        return text + f"measured {choice.cell.mean:.4f}"
    low, high = choice.interval
    return text + (
        f"expected {choice.expected:.4f} ({low:.4f} to {high:.4f})\nmeasured {choice.cell.mean:.4f}"
    )


def evenly_chosen(values: Sequence[_Value], most: int) -> tuple[_Value, ...]:
    """At most `most` of the values: the first, the last, and evenly between."""
    if len(values) <= most:
        return tuple(values)
    return tuple(values[round(i * (len(values) - 1) / (most - 1))] for i in range(most))


def _spaced(values: Iterable[int], room: float) -> list[int]:
    """Of the values, ascending, those that lie apart by the factor `room`; the last is kept."""
    kept: list[int] = []
    for value in sorted(values, reverse=True):
        if not kept or value * room <= kept[-1] * (1 + 1e-9):
            kept.append(value)
    return kept[::-1]


# Mantissas of ticks, from few to many.
_MANTISSAS = ((1,), (1, 3), (1, 2, 5), tuple(range(1, 10)))


def round_ticks(low: float, high: float, most: int) -> tuple[tuple[float, str], ...]:
    """Ticks of a logarithmic axis at round numbers, 1e19 and 3e19, `most` of them or fewer.

    Every so many powers of ten where those are more; the ends themselves where none lies between.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    chosen: list[float] = []
    for mantissas in _MANTISSAS:
        values = [m * 10.0**power for power in decades for m in mantissas]
        inside = [value for value in values if low <= value <= high]
        if len(inside) > most and chosen:
            break
        chosen = inside
    if len(chosen) < 2:
        chosen = sorted({float(f"{low:.2g}"), *chosen, float(f"{high:.2g}")})
    # Every second power of ten, or third, where there are many.
    return tuple((value, short(value)) for value in chosen[:: math.ceil(len(chosen) / most)])
