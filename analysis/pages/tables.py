"""Tables as the report's page shows them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from isosweep.analysis.curves import SweepData
from isosweep.analysis.pairs import Pair
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.learning_curve import Estimate
from isosweep.plan.tally import Standing
from isosweep.words.numbers import UNITS, short

MISSING = "–"


@dataclass(frozen=True, kw_only=True)
class PageTable:
    """Headings and rows; `left`: indices of columns that are set left, as words are."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: frozenset[int] = frozenset()


def page_table(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, left: Iterable[int] = ()
) -> PageTable:
    """A table of the page; `left`: indices of columns that are set left."""
    cells = tuple(tuple(map(str, row)) for row in rows)
    return PageTable(head=tuple(head), rows=cells, left=frozenset(left))


def number(value: float | None, form: str) -> str:
    """A number as `format` writes it by `form`, 1e18 for 1e+18; a dash where it is not known."""
    return MISSING if value is None else format(value, form).replace("e+", "e")


def span(ends: tuple[float, float] | None) -> str:
    """An interval of rewards."""
    return MISSING if ends is None else "{:.4f} to {:.4f}".format(*ends)


def page_tables(data: SweepData, findings: Findings) -> dict[str, PageTable]:
    """Tables of what was found, by the name of the file that has more of each."""
    frontier, survivals = findings.frontier, findings.survivals
    budget, sure = f"budget ({UNITS[data.plan.budget_unit]})", f"{frontier.confidence:.0%}"
    between = {
        (read.cell.budget, Pair.of(read.cell))
        for read in data.readings
        if read.reading == "interpolated"
    }
    choices = [
        (
            *(short(at.budget), *Pair.of(cell), each.num_batches_tried, cell.num_steps),
            f"{cell.num_seeds}" + (f" (and {cell.num_fallen} fallen)" if cell.num_fallen else ""),
            ("≈" if (at.budget, Pair.of(cell)) in between else "") + f"{cell.mean:.4f}",
            *(number(each.expected, ".4f"), span(each.interval), number(each.loss_upper, ".4f")),
            *(number(each.probability_best, ".2f"), "yes" if each.indistinguishable else "no"),
        )
        for at in frontier.budgets
        for each in at.choices
        for cell in [each.cell]
    ]
    optima = [
        (
            *(short(at.budget), *Pair.of(best.cell), best.cell.num_steps, at.optimum),
            *(number(best.expected, ".4f"), span(best.interval), at.optimum.n_d or MISSING),
        )
        for at in frontier.budgets
        for best in [at.best]
    ]
    survival = [
        (each.num_generations, each.num_runs, each.num_fallen, f"{kept.median:.0%}", span(ends))
        for each in survivals
        for kept in [each.kept]
        for ends in [(kept.low, kept.high)]
    ]
    runs = {run.run_id: run for run in data.plan.runs}
    fits = [
        (
            *(*Pair.of(runs[fit.run_id]), runs[fit.run_id].seed, fit.num_records),
            *(number(fit.base_reward, ".4f"), *map(_estimate, fit.parameters)),
            *(number(fit.reduced_chi2, ".2f"), fit.status.value),
        )
        for fit in findings.fits
    ]
    rewards = f"interval ({sure})"
    return {
        "choices": page_table(
            (
                *(budget, "n", "best B", "B tried", "T", "seeds", "measured", "expected", rewards),
                *(f"loss at most ({sure})", "P(best)", "may be best"),
            ),
            choices,
        ),
        "optima": page_table(
            (
                *(budget, "n", "B", "T", f"n*, the best n ({sure})", "expected", rewards),
                f"n_d, the smallest n that is good enough ({sure})",
            ),
            optima,
        ),
        "survival": page_table(
            ("n", "runs", "fallen", "share that keeps its gain", "interval"), survival
        ),
        "fits": page_table(
            (
                *("n", "B", "seed", "records", "R0", "A", "C_mid", "B (exponent)"),
                *("chi²/dof", "status"),
            ),
            fits,
        ),
    }


def _estimate(found: Estimate | None) -> str:
    if found is None:
        return MISSING
    return f"{found.value:.3g} ± {found.standard_error:.2g}".replace("e+", "e")


def set_table(data: SweepData) -> PageTable:
    """The sets that records are taken of; without a row where there is only the main one."""
    rows = [
        (
            reading.name or "held-out problems",
            "this report"
            if reading.name == data.evaluation_set
            else f"mode=analyse analysis.evaluation_set={reading.name or 'null'}",
            *(reading.num_problems, reading.samples_per_problem, reading.num_runs),
            *(number(reading.before, ".4f"), f"{reading.last:.4f}"),
        )
        for reading in data.sets
    ]
    head = ("set", "report", "problems", "k", "runs", "avg@k before", "avg@k at the end")
    return page_table(head, rows if len(rows) > 1 else [], left=(0, 1))


def missing_runs(data: SweepData) -> PageTable:
    """Runs that failed, diverged, broke a health rule or have not reached all their budgets."""
    lacking: dict[str, list[float]] = {}
    for reading in data.readings:
        if reading.reward is None:
            lacking.setdefault(reading.cell.run_id, []).append(reading.cell.budget)
    rows = []
    for curve in data.curves:
        budgets = lacking.get(curve.run.run_id, [])
        ending = curve.ending
        if not (budgets or ending.warnings or ending.status in ("failed", "diverged")):
            continue
        status = ending.status or ("not asked for" if data.searched else Standing.NOT_BEGUN.value)
        if curve.collapsed_at is not None:
            status += f", collapsed at step {curve.steps[curve.collapsed_at]}"
        warned = ", ".join(f"{warning.rule} (step {warning.step})" for warning in ending.warnings)
        reached = float(curve.compute[-1]) if curve.compute.size else None
        # A run that went on past a budget has no record near enough to be read there.
        past = reached is not None and any(budget < reached for budget in budgets)
        reason = ending.reason or ("no record near the budget" if past else "")
        rows.append(
            (
                *(*Pair.of(curve.run), curve.run.seed, status, reason, warned),
                *(number(reached, ".4g"), ", ".join(map(short, budgets)) or "none"),
                curve.run.run_id,
            )
        )
    head = ("n", "B", "seed", "status", "reason", "warnings", "compute reached")
    return page_table((*head, "budgets not read", "run"), rows, left=(3, 4, 5, 8))
