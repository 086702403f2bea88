"""`mode=plan steps=T` without a budget: single runs, whether they fit and what they take."""

from dataclasses import asdict

from rich.console import Console

from isosweep.config.sweep import SweepConfig
from isosweep.modes.terminal import say, show_json
from isosweep.plan.single import single_runs
from isosweep.words.plan import single

VERSION = 1


def describe_runs(config: SweepConfig, console: Console) -> int:
    """Print what is planned of each run, in ten lines or as a document; returns 0."""
    runs = list(single_runs(config))
    if config.format == "json":
        show_json(console, {"version": VERSION, "runs": [asdict(run) for run in runs]})
        return 0
    for number, run in enumerate(runs):
        say(console, *[""][: min(number, 1)], *single(run))
    return 0
