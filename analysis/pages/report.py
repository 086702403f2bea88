"""What the report's page shows: values for its template."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, get_args

from isosweep.analysis.answer import Answer
from isosweep.analysis.completions import Completions, Sign, few_answers, shown_problems
from isosweep.analysis.curves import SweepData
from isosweep.analysis.figures.all import Figures, Section
from isosweep.analysis.figures.style import Figure
from isosweep.analysis.pages.render import render
from isosweep.analysis.pages.tables import (
    PageTable,
    missing_runs,
    page_table,
    page_tables,
    set_table,
)
from isosweep.analysis.statistics.findings import Findings
from isosweep.config.changes import changed_settings
from isosweep.plan.cells import variant_label
from isosweep.plan.tally import Standing
from isosweep.words.completions import sign
from isosweep.words.numbers import UNITS, setting, short

# Sections of the page in its order: a new one is a line here, and a template of this name in
# `isosweep/words/report/`.
SECTIONS = (
    "answer",
    "best_n",
    "reward",
    "curves",
    "completions",
    "search",
    "training",
    "runs",
    "settings",
)
# The page of a sweep that goes on looks for a newer one after so many seconds.
_RELOAD_S = 60


@dataclass(frozen=True, kw_only=True)
class About:
    """What the page says beside the findings. `settings`: all, by dotted name; `completions` that
    are kept, and `signs` of them; `going_on`: runs go on, so that the page is written anew."""

    settings: Mapping[str, Any]
    answer: Answer
    completions: Completions
    signs: Sequence[Sign] = ()
    going_on: bool = False


def render_report(
    data: SweepData,
    findings: Findings,
    figures: Figures,
    about: About,
) -> str:
    """The whole page."""
    unit, use = UNITS[data.plan.budget_unit], about.answer.use
    drawn = {section: figures.in_section(section) for section in get_args(Section)}
    return render(
        "report.html",
        _title(data),
        sections=SECTIONS,
        made=_made(data, about),
        reload_s=_RELOAD_S if about.going_on else None,
        progress=_progress(about.answer) if about.going_on else "",
        answer=about.answer,
        drawn=drawn,
        first=_first_numbers(drawn),
        left_out=_by_reason(figures.left_out),
        frontier=findings.frontier,
        tables=page_tables(data, findings),
        unit=unit,
        sets=set_table(data),
        essentials=_essentials(data, about),
        missing=missing_runs(data),
        searched=data.searched,
        survived=findings.survivals,
        shown=shown_problems(about.completions, use.num_generations if use else None),
        few_answers=few_answers,
        signs=[(sign(each), each.example) for each in about.signs],
        num_rejected=len(data.plan.rejected),
        problems=data.problems,
        **_settings(data, about),
    )


def _made(data: SweepData, about: About) -> str:
    """When and by what, and of which plan."""
    plan = data.plan_document.get("plan_id")
    named = f", plan {plan}" if plan else ""
    return f"Analysed {_now()} with isosweep {about.answer.versions['isosweep']}{named}"


def _progress(answer: Answer) -> str:
    """How far a sweep is whose runs go on."""
    done = answer.runs.standings.get(Standing.DONE.value, 0)
    return f"{done} of {answer.runs.total} runs done, as of {_now()}"


def _now() -> str:
    """The date and the time, in UTC."""
    return datetime.now(tz=UTC).strftime("%Y-%m-%d %H:%M UTC")


def _settings(data: SweepData, about: About) -> dict[str, PageTable | None]:
    """Tables of the settings that differ from their defaults (None where those are not known), of
    all, and of versions."""
    changed = changed_settings(about.settings)
    named = {"plan_id": data.plan_document.get("plan_id", ""), **about.answer.versions}
    head = ("setting", "value")
    return {
        "altered": None if changed is None else page_table(head, _typed(changed), left=(0, 1)),
        "settings": page_table(head, _typed(about.settings), left=(0, 1)),
        "versions": page_table(("of", "version"), named.items(), left=(0, 1)),
    }


def _typed(settings: Mapping[str, object]) -> list[tuple[str, str]]:
    return [(name, setting(value)) for name, value in settings.items()]


# Of the settings, those that a reader asks for first.
_ESSENTIALS = {
    "model": "model.name",
    "task": "task.name",
    "problems to train on": "task.num_train_problems",
    "held-out problems": "task.num_eval_problems",
    "samples of each in an evaluation": "evaluation.samples_per_problem",
    "recipe": "recipe.name",
    "learning rate": "recipe.learning_rate",
    "how it goes with n x B": "recipe.learning_rate_rule",
    "device": "hardware.device",
    "dtype": "hardware.dtype",
}


def _essentials(data: SweepData, about: About) -> PageTable:
    """What was run, in a dozen lines."""
    plan, settings = data.plan, about.settings
    budgets = sorted({each for run in plan.runs for each in run.milestones})
    rows: list[tuple[str, object]] = [
        (words, setting(settings[name])) for words, name in _ESSENTIALS.items() if name in settings
    ]
    rows += [
        ("n", ", ".join(map(str, data.generations))),
        ("B", ", ".join(map(str, data.batches))),
        ("seeds", ", ".join(map(str, sorted({run.seed for run in plan.runs})))),
        (f"budgets ({UNITS[plan.budget_unit]} a run)", ", ".join(map(short, budgets))),
    ]
    return page_table(("what", "value"), rows, left=(0, 1))


def _first_numbers(drawn: Mapping[Section, Mapping[str, Figure]]) -> dict[Section, int]:
    """The number of each section's first figure, in the order of the page."""
    counts = [len(figures) for figures in drawn.values()]
    starts = accumulate(counts, initial=1)
    return dict(zip(drawn, starts, strict=False))


def _by_reason(left_out: Mapping[str, str]) -> dict[str, str]:
    """Names of figures, joined, by why they are left out."""
    reasons: dict[str, list[str]] = {}
    for name, why in left_out.items():
        reasons.setdefault(why, []).append(name)
    return {why: ", ".join(names) for why, names in reasons.items()}


def _title(data: SweepData) -> str:
    axes = [variant_label(run.axes) for run in data.plan.runs[:1] if run.axes]
    metric = [] if data.metric == "avg" else [f"{data.metric}@k"]
    scored = [f"scored on {data.evaluation_set}"] if data.evaluation_set is not None else []
    named = [_name(data, "model"), _name(data, "task"), *axes, *scored, *metric]
    return "isosweep: " + ", ".join(named)


def _name(data: SweepData, group: str) -> str:
    """Name of the model or task, as the sweep's config has it."""
    described = data.config_document.get(group)
    if isinstance(described, dict) and "name" in described:
        return str(described["name"])
    return f"unnamed {group}"
