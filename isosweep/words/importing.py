"""`mode=import`: what was read of a table, and what an answer that rests on it may depend on."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from isosweep.compute import BudgetUnit
from isosweep.files import JsonObject
from isosweep.words.numbers import amount, plural, short

if TYPE_CHECKING:
    from isosweep.plan.cells import Plan
    from isosweep.plan.document import Imported, Note

# By kind of note.
_NOTES = {
    "no reward": "{runs} left out: fewer than two rewards ({example})",
    "lone n": "{runs} with n = 1 left out ({example})",
    "repeated": "{evaluations} repeated at one step: the last one is used (most in {example})",
    "counted from zero": "{runs} with compute at step 0: steps count from 1 ({example})",
    "no compute": "{evaluations} left out: no row at their step or later has compute ({example})",
    "went back": "{runs} went back to an earlier step ({example}): "
    "rows logged before, from that step on, are left out",
    "summed once": "{rows} of compute logged again for a step: "
    "each step is summed once (most in {example})",
    "no number": "{runs} with evaluations that have no number as reward ({example}): left out. "
    "Runs whose rewards end so may have diverged",
    "torn": "the last line of {example} was not written whole: left out",
    "empty": "{files} without rows left out ({example})",
    "unreadable": "{run_files} left out: broken or not written whole ({example})",
    "other kinds": "{files} of other kinds left out ({example}). import.reader={reader} reads them "
    "alone; import.files=[FILE,FILE] reads files of several kinds",
    "interpolated": "compute of {evaluations} interpolated between rows with compute "
    "(most in {example})",
    "same seed": "{runs} with the n, B and seed of another run ({example}): "
    "each counts as one more seed",
    "no seeds": "{runs} without a seed: numbered within their n and B, and taken for repetitions "
    "that differ only by chance",
    "short": "{runs} left out: no budget, of which the first is {compute}, lies between their "
    "first and last evaluation ({example})",
    "behind": "{example}: no records at the last budget of {compute}",
    "further": "{example}: no records beyond the last budget, while other runs go on to {compute}. "
    "budget=[...] with numbers up to there reads these, too",
    "several updates": "{runs} with several updates on each batch of rollouts ({example}: "
    "{value:g}): rollouts are n x B x step / updates",
    "updates differ": "{runs} differ in updates on each batch of rollouts ({example}): "
    "read as variants, each with its own answer",
    "training reward": 'the column "reward" may be the reward on training problems. Choose a '
    "held-out column with import.columns={{reward:NAME}}",
    "settings differ": "runs of one n and B differ in {example}, and count as seeds of one "
    "setting. Import each setting separately",
}


def notes(found: "Iterable[Note]", unit: BudgetUnit) -> list[str]:
    """Return a line for each note of an import."""
    return [
        _NOTES[each.kind].format(
            runs=plural(each.count, "run"),
            evaluations=plural(each.count, "evaluation"),
            rows=plural(each.count, "row"),
            files=plural(each.count, "file"),
            run_files=plural(each.count, "run file"),
            example=each.example,
            value=each.value or 0.0,
            reader=each.example.partition(", not ")[2].partition(":")[0],
            compute="" if each.value is None else amount(each.value, unit),
        )
        for each in found
    ]


def read(imported: "Imported", plan: "Plan") -> list[str]:
    """Return which columns were read as what, and the runs and budgets that they make."""
    columns = ", ".join(
        f"{quantity} = {column}{' (guessed)' if quantity in imported.guessed else ''}"
        for quantity, column in imported.columns.items()
    )
    n = sorted({run.num_generations for run in plan.runs})
    batches = sorted({run.problems_per_batch for run in plan.runs})
    budgets = ", ".join(map(short, plan.budgets))
    return [
        f"columns: {columns}",
        f"{plural(len(plan.runs), 'run')} with n = {', '.join(map(str, n))} and "
        f"B = {', '.join(map(str, batches))}; budgets {budgets} {plan.budget_unit}",
    ]


def replaced(before: JsonObject, plan: "Plan") -> str:
    """Return which import a directory held before, by its plan.json, and which it holds now."""
    was, now = plural(len(before["runs"]), "run"), plural(len(plan.runs), "run")
    return (
        f"it was the import of plan {before['plan_id']} ({was}), and is now plan {plan.plan_id} "
        f"({now})"
    )
