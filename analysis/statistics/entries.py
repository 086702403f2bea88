"""What is set side by side: sweeps, and variants of each, and the settings that tell them apart."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from isosweep.analysis.curves import SweepData
from isosweep.analysis.statistics.findings import Findings
from isosweep.config.base import AXIS_GROUPS, stored_settings
from isosweep.plan.cells import variant_label
from isosweep.words.numbers import setting

# More would be no label.
_MOST_SETTINGS = 3
# Settings of tasks and evaluations that leave the held-out problems and their scores as they are.
_NOT_SCORED = re.compile(
    r"task\.(mixture\.(parts\.[^.]+\.)?)?(name|prompt_tokens|completion_tokens)"
    r"|task\.mixture\.shares(\..*)?"
    r"|task\.(.+\.)?((math|code)\.path|custom\.directory)"
    r"|evaluation\.records_per_decade"
)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One sweep, or one variant of its `grid.axes`, with what its records show.

    `settings`: all of its config, by dotted name.
    """

    name: str
    data: SweepData
    findings: Findings
    settings: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of_variant(
        cls, axes: dict[str, Any], data: SweepData, findings: Findings, *, sweep: str = ""
    ) -> "Entry":
        """The entry of one variant of a sweep, or of all there is of it (`axes` empty).

        `sweep`: its name, where others are beside it.
        """
        return cls(
            name=" ".join(filter(None, (sweep, variant_label(axes)))),
            data=data,
            findings=findings,
            settings=stored_settings(data.config_document, axes),
        )


def sweep_labels(names: Sequence[str], documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """What tells the sweeps of these config documents apart: their settings that differ, or where
    these are none, too many to read, or the same for two, their names."""
    sweeps = [stored_settings(document, {}) for document in documents]
    every = dict.fromkeys(name for settings in sweeps for name in settings if _counts(name))
    differ = [name for name in every if len({repr(each.get(name)) for each in sweeps}) > 1]
    # The choice of a group stands for what it sets.
    chosen = {name.partition(".")[0] for name in differ if name.endswith(".name")}
    shown = [n for n in differ if n.endswith(".name") or n.partition(".")[0] not in chosen]
    labels = [
        " ".join(
            value if name.endswith(".name") else f"{name.rpartition('.')[2]}={value}"
            for name, value in ((name, setting(settings.get(name))) for name in shown)
        )
        for settings in sweeps
    ]
    told_apart = len(set(labels)) == len(labels) and len(shown) <= _MOST_SETTINGS
    return labels if told_apart else list(names)


def _counts(name: str) -> bool:
    """Whether a setting is one of what a sweep asks, and not of where and how it runs."""
    group = name.partition(".")[0]
    return group in (*AXIS_GROUPS, "grid", "budget", "budget_unit") and not name.startswith(
        "grid.axes"
    )


def scored_otherwise(entries: Sequence[Entry], evaluation_set: str | None = None) -> list[str]:
    """The settings in which the entries differ that say which problems a reward is of, and how they
    are scored: those of the task and its evaluation, or of one `evaluation_set` besides."""
    own = f"evaluation.sets.{evaluation_set}."
    names = dict.fromkeys(
        name
        for entry in entries
        for name in entry.settings
        if name.startswith(own)
        or (name.startswith(("task.", "evaluation.")) and not name.startswith("evaluation.sets"))
    )
    differ = [n for n in names if len({repr(each.settings.get(n)) for each in entries}) > 1]
    found = [name for name in differ if not _NOT_SCORED.fullmatch(name)]
    # Held-out problems are drawn first (docs/tasks.md), but those of `sort` follow the others.
    kinds = {v for each in entries for n, v in each.settings.items() if n.endswith(".kind")}
    return [n for n in found if "sort" in kinds or not n.endswith("num_train_problems")]
