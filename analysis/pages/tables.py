"""The tables of the report's page. Every value is escaped."""

from collections.abc import Iterable, Sequence
from html import escape

from isosweep.analysis.curves import CellReading, SweepData
from isosweep.analysis.figures.axes import UNITS
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.fits import Estimate, Fit
from isosweep.analysis.statistics.frontier import Frontier
from isosweep.analysis.statistics.mechanism import ProblemChange
from isosweep.analysis.statistics.validation import Validation
from isosweep.analysis.statistics.views import View
from isosweep.heldout import CHANGED

_MISSING = "–"


def html_table(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, words: Sequence[int] = ()
) -> str:
    """A table; columns whose index is in `words` are set left."""

    def cells(tag: str, values: Sequence[object]) -> str:
        return "".join(_cell(tag, value, word=i in words) for i, value in enumerate(values))

    body = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f'<div class="wide"><table><thead><tr>{cells("th", head)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(tag: str, value: object, *, word: bool) -> str:
    kind = ' class="word"' if word else ""
    return f"<{tag}{kind}>{escape(str(value))}</{tag}>"


def _number(value: float | None, form: str) -> str:
    return _MISSING if value is None else format(value, form)


def frontier_table(data: SweepData, frontier: Frontier) -> str:
    rows = [
        (
            f"{at.budget:.3g}",
            choice.num_generations,
            choice.cell.problems_per_batch,
            choice.num_batches_tried,
            choice.cell.num_steps,
            choice.cell.num_seeds,
            f"{choice.cell.mean:.4f}",
            _number(choice.expected, ".4f"),
            _range(choice.interval),
            f"{choice.loss:.4f}",
            _number(choice.loss_upper, ".4f"),
            _number(choice.probability_best, ".2f"),
            "yes" if choice.indistinguishable else "no",
        )
        for at in frontier.budgets
        for choice in at.choices
    ]
    spread = (
        "Seed spread is not known: intervals and bounds are left out."
        if not frontier.degrees_of_freedom
        else "Measured: mean over seeds. Expected, its interval and all to its right: by the "
        "reward surface over compute, n and B. Standard deviation between seeds "
        f"({frontier.degrees_of_freedom} degrees of freedom): "
        + "; ".join(
            f"{at.seed_sd:.4f} at {at.budget:.3g}"
            for at in frontier.budgets
            if at.seed_sd is not None
        )
        + "."
    )
    head = (
        f"budget ({UNITS[data.plan.budget_unit]})",
        "n",
        "best B",
        "B tried",
        "T",
        "seeds",
        "measured",
        "expected",
        f"interval ({frontier.confidence:.0%})",
        "loss to best",
        f"loss at most ({frontier.confidence:.0%})",
        "P(best)",
        "may be best",
    )
    return f"<p>{escape(spread)}</p>{html_table(head, rows)}"


def _range(ends: tuple[float, float] | None) -> str:
    return _MISSING if ends is None else f"{ends[0]:.4f} to {ends[1]:.4f}"


def cell_table(data: SweepData) -> str:
    """One row per (budget, n, B), with a column of rewards for every seed."""
    seeds = sorted({cell.seed for cell in data.plan.cells})
    grouped: dict[tuple[float, int, int], dict[int, CellReading]] = {}
    for reading in data.readings:
        cell = reading.cell
        key = (cell.budget, cell.num_generations, cell.problems_per_batch)
        grouped.setdefault(key, {})[cell.seed] = reading
    rows = []
    for (budget, n, B), by_seed in sorted(grouped.items()):
        cell = next(iter(by_seed.values())).cell
        row: list[object] = [f"{budget:.3g}", n, B, cell.num_steps, f"{cell.planned_compute:.4g}"]
        readings = [by_seed.get(seed) for seed in seeds]
        row += [_number(r.measured_compute if r else None, ".4g") for r in readings]
        row += [_reward(r) for r in readings]
        rows.append(row)
    head = [
        *("budget", "n", "B", "T", "planned"),
        *(f"measured, seed {seed}" for seed in seeds),
        *(f"reward, seed {seed}" for seed in seeds),
    ]
    return html_table(head, rows)


def _reward(reading: CellReading | None) -> str:
    if reading is None or reading.reward is None:
        return _MISSING
    return ("~" if reading.reading == "interpolated" else "") + f"{reading.reward:.4f}"


def change_table(changes: Sequence[ProblemChange]) -> str:
    head = ("n", "B", "seeds", "none right", "all right", "better", "worse", "gained", "lost")
    rows = [
        (
            change.num_generations,
            change.problems_per_batch,
            change.num_seeds,
            *(f"{share:.1%}" for share in (change.none, change.all, change.better, change.worse)),
            *(f"{reward:.4f}" for reward in (change.gained, change.lost)),
        )
        for change in changes
    ]
    text = (
        "<p>At the largest budget against the base model, for each n at its best B, seeds "
        "together. None, all: share of problems of which no sample, every sample is right. "
        f"Better, worse: success rates that differ by more than {CHANGED:g} standard errors; "
        "chance alone would put about 2% on either side. Gained, lost: rises and falls of all "
        "problems' rates, whose difference is the change of the reward.</p>"
    )
    return text + html_table(head, rows)


def validation_text(validation: Validation | None, unit: str) -> str:
    if validation is None:
        return "<p>Two budgets that the same runs have reached are needed.</p>"
    return (
        f"<p>From the records up to {validation.known:.3g} {escape(unit)}, the reward at "
        f"{validation.budget:.3g} was forecast for {validation.num_runs} runs: root mean square "
        f"error {validation.rmse:.4f} (if it had stayed where it was: "
        f"{validation.persistence_rmse:.4f}), mean error {validation.bias:+.4f}; "
        f"{validation.covered:.0%} lay inside their {validation.confidence:.0%} intervals, which "
        f"were {validation.width:.3f} wide on average.</p>"
    )


def fit_table(data: SweepData, fits: Sequence[Fit]) -> str:
    runs = {run.run_id: run for run in data.plan.runs}

    def estimate(value: Estimate | None) -> str:
        return _MISSING if value is None else f"{value.value:.3g} ± {value.standard_error:.2g}"

    rows = [
        (
            runs[fit.run_id].num_generations,
            runs[fit.run_id].problems_per_batch,
            runs[fit.run_id].seed,
            fit.num_records,
            _number(fit.base_reward, ".4f"),
            estimate(fit.asymptote),
            estimate(fit.midpoint),
            estimate(fit.exponent),
            _number(fit.reduced_chi2, ".2f"),
            _MISSING if fit.alternatives is None else fit.alternatives.best,
            fit.status.value,
        )
        for fit in fits
    ]
    head = ("n", "B", "seed", "records", "R0", "A", "C_mid", "B (exponent)", "chi²/dof")
    return html_table((*head, "best law (QAICc)", "status"), rows, words=(9, 10))


def view_table(views: Sequence[View]) -> str:
    if not views:
        return "<p>Given for the plain view of a sweep: avg@k on all problems.</p>"
    rows = [
        (
            f"{view.metric}@k",
            _problems(view),
            view.num_problems,
            f"{view.base_reward:.4f}",
            f"{view.best_reward:.4f}",
            view.best,
            ", ".join(map(str, view.candidates)),
            view.verdict,
        )
        for view in views
    ]
    head = ("metric", "problems", "how many", "before", "best", "best n", "may be best", "verdict")
    return html_table(head, rows, words=(0, 1, 6, 7))


def _problems(view: View) -> str:
    if view.difficulty is None:
        return "all"
    low, high = view.difficulty
    if high == 0:
        return "never right before training"
    return f"right {low:.0%} to {high:.0%} of the time before training"


def asymptote_table(findings: Findings) -> str:
    rows = [
        (
            found.num_generations,
            found.problems_per_batch,
            f"{found.num_identified} of {found.num_seeds}",
            _number(found.value, ".4f"),
            _range(None if found.low is None or found.high is None else (found.low, found.high)),
        )
        for found in findings.asymptotes
    ]
    text = (
        "<p>A of every (n, B): mean over seeds and Student interval at "
        f"{findings.frontier.confidence:.0%}; given where all seeds, two or more, identify it.</p>"
    )
    return text + html_table(("n", "B", "seeds that identify A", "A", "interval"), rows)


def missing_runs(data: SweepData) -> str:
    missing = [reading.cell for reading in data.readings if reading.reward is None]
    rows = []
    for curve in data.curves:
        lacking = [c.budget for c in missing if c.run_id == curve.run.run_id]
        if not lacking and not curve.warnings and curve.status not in ("failed", "diverged"):
            continue
        reached = float(curve.compute[-1]) if curve.compute.size else None
        budgets = ", ".join(f"{budget:.3g}" for budget in lacking) or "none"
        reason = curve.status_reason or ""
        status = curve.status or "never started"
        if curve.collapsed_at is not None:
            status += f", collapsed at step {curve.steps[curve.collapsed_at]}"
        warnings = ", ".join(f"{warning.rule} (step {warning.step})" for warning in curve.warnings)
        told = (curve.run.run_id, status, reason, warnings)
        rows.append((*told, _number(reached, ".4g"), budgets))
    head = ("run", "status", "reason", "warnings", "compute reached", "budgets not reached")
    table = html_table(head, rows, words=(0, 1, 2, 3))
    text = table if rows else "<p>No run failed or is missing.</p>"
    if any(curve.collapsed_at is not None for curve in data.curves):
        text += (
            "<p>A run has collapsed if it ends having lost half of its best gain for good. Its "
            "records from there on are left out of frontier and fits: what is said of an n is "
            "said of runs that hold on, and how many did not is part of the answer.</p>"
        )
    if data.plan.rejected:
        text += f"<p>Candidates that the plan rejected: {len(data.plan.rejected)}.</p>"
    if data.problems:
        items = "".join(f"<li>{escape(problem)}</li>" for problem in data.problems)
        text += f"<p>Lines and files that could not be used:</p><ul>{items}</ul>"
    return text
