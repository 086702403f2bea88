"""A table of every file of conf/experiment/, planned.

    python -m isosweep.plan.experiments

Nothing is trained and nothing measured: device-hours are the planner's, with the efficiencies that
it assumes (`hardware.calibrated=false`) and PyTorch's own attention, so that they are the same on
every machine.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isosweep.config.hydra import config_directory, config_of
from isosweep.plan.study import Study, resolve

_COLUMNS = ("`+experiment=`", "figure", "n x B", "also varied", "runs", "device-hours")
HEAD = f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}"
# Where no runs lie.
_NOWHERE = "sweeps_dir=/nonexistent"
_ASSUMED = ("hardware.calibrated=false", "hardware.attention=sdpa")


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A file of conf/experiment/. `figure`: the first sentence of its comment."""

    name: str
    figure: str

    def study(self) -> Study:
        """What it plans, wherever it is planned."""
        typed = (f"+experiment={self.name}", "mode=plan", _NOWHERE, *_ASSUMED)
        return resolve(config_of(typed))

    def row(self) -> str:
        """Its line of the table."""
        study = self.study()
        plan = study.plan
        pairs = {(run.num_generations, run.problems_per_batch) for run in plan.runs}
        cells = (
            f"`{self.name}`",
            self.figure,
            _pairs(pairs),
            "; ".join(_axis(axis, plan.axes) for axis in plan.axes[0]),
            str(len(plan.runs)),
            _rounded(study.device_hours),
        )
        return f"| {' | '.join(cells)} |"


def experiments(folder: str = "") -> list[Experiment]:
    """Those in conf/experiment/, or in a folder of it ("tiny"), by name; not what they share."""
    directory = config_directory() / "experiment" / folder
    return [
        Experiment(name=f"{folder}/{path.stem}" if folder else path.stem, figure=_figure(path))
        for path in sorted(directory.glob("*.yaml"))
        if not path.stem.startswith("_")
    ]


def _figure(path: Path) -> str:
    """The first sentence of the file's comment, after the line that says where it belongs."""
    comment = []
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        if not line.startswith("#"):
            break
        comment.append(line.removeprefix("#").strip())
    sentence, _, _ = " ".join(comment).partition(". ")
    return sentence.removesuffix(".")


def _axis(axis: str, variants: list[dict[str, Any]]) -> str:
    """An axis and its values, in their order."""
    values = dict.fromkeys(str(axes[axis]) for axes in variants)
    return f"{axis}: {', '.join(values)}"


def _pairs(pairs: set[tuple[int, int]]) -> str:
    """Values of n and B, and of their product where there is one."""
    ns, bs = (sorted(set(values)) for values in zip(*pairs, strict=True))
    return f"{_listed(ns)} x {_listed(bs)}"


def _listed(values: list[int]) -> str:
    return str(values[0]) if len(values) == 1 else f"({values[0]} to {values[-1]})"


def _rounded(hours: float) -> str:
    """Three digits, which is more than the model of time is good for; of less than one, two."""
    return f"{float(f'{hours:.3g}'):,.0f}" if hours >= 1 else f"{hours:.2g}"


def main() -> None:
    """Print both tables: the published experiments, and their tiny twins."""
    for folder in ("", "tiny"):
        rows = [experiment.row() for experiment in experiments(folder)]
        sys.stdout.write("\n".join([HEAD, *rows, "", ""]))


if __name__ == "__main__":
    main()
