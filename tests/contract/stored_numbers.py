"""What the analysis says of sixty simulated sweeps, and of the studies of docs/studies.

`sweeps.csv.xz` has thirty worlds, each with ten runs (twelve where there are several B) and with
36: `ten easy`, `36 easy`. It was simulated once (`tests/contract/make_sweeps.py` of commit bcb79e79
makes the same table), and is data as if from elsewhere. A row is one held-out evaluation; a column
that is empty for a whole sweep is none of its table; in `flops` or `rollouts` lies the compute. A
world has the name of its preset in analysis/simulation, but for these:

- several B: `batch`, with two B of every n
- behind, far behind, holes, sharp, hair: `plateau`, `return`, `logarithm`, `straight`, `constant`,
  as cases of benchmarks/kinds.py
- n missing, one collapsed, sparse, one seed: `plateau` without the n amid the grid, with a run that
  falls to 0.2, with every third evaluation of seed 0, with seed 0 alone
- uneven lengths: `slow_tail`, whose runs end somewhere in the last 0.8 decades

`stored_numbers.json` has it, a line a budget. After a change of the analysis that is meant to
change numbers

    python -m tests.contract.stored_numbers

writes that file anew, in about two minutes of one core, and prints every number that moved, old
and new: look at them, and at the diff. With names ("ten easy", smollm2) it reads those alone.

All numbers are the same to 1e-6 with one thread and with two, and with the kernels of OpenBLAS for
Haswell, SkylakeX and Nehalem (OPENBLAS_CORETYPE), probabilities and other shares of draws included.
"""

import json
import math
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from tests.contract.surface import Answers, answers_of_frame, answers_of_stored, conclusions

SWEEPS = Path(__file__).with_name("sweeps.csv.xz")
STORED = Path(__file__).with_name("stored_numbers.json")
STUDIES = Path(__file__).parents[2] / "docs" / "studies"
# The sweeps in each archive.
ARCHIVES = {
    "few_problems": ("few_problems",),
    "smollm2": ("smollm2_few", "smollm2_many"),
}
SWEEPS_OF_STUDIES = tuple(name for names in ARCHIVES.values() for name in names)
# What of the conclusions is of the n that is judged; the rest is the same whichever it is.
_JUDGED = ("verdict", "probabilities", "rate")
# Numbers that are the same, but for rounding in another order.
_RELATIVE, _ABSOLUTE = 1e-6, 1e-9

Numbers = dict[str, Any]


@cache
def tables() -> dict[str, pd.DataFrame]:
    """The table of every simulated sweep, by name, with the columns that it has."""
    whole = pd.read_csv(SWEEPS).groupby("sweep", sort=False)
    return {str(name): own.drop(columns="sweep").dropna(axis=1, how="all") for name, own in whole}


def numbers_of_sweep(name: str, directory: Path) -> Numbers:
    """The numbers of a simulated sweep, which is imported into `directory`."""
    return numbers_of(answers_of_frame(tables()[name], directory / "sweep"))


def numbers_of_archive(name: str, directory: Path) -> dict[str, Numbers]:
    """The numbers of every variant of an archive's sweeps, which are unpacked in `directory`."""
    with tarfile.open(STUDIES / f"{name}.tar.xz") as archive:
        archive.extractall(directory, filter="data")
    return {
        f"{sweep} {variant}".removesuffix(f" {sweep}"): numbers_of(answers)
        for sweep in ARCHIVES[name]
        for variant, answers in answers_of_stored(directory / sweep).items()
    }


def numbers_of(answers: Answers) -> Numbers:
    """What is stored of a sweep's answers: of each quantity what is of it alone, and the rest."""
    found = {quantity: conclusions(answer) for quantity, answer in answers.items()}
    judged = {q: {name: own.pop(name) for name in _JUDGED} for q, own in found.items()}
    shared, *others = found.values()
    assert all(each == shared for each in others)
    return {**judged, **shared}


@cache
def stored() -> dict[str, Numbers]:
    """What `stored_numbers.json` holds, by sweep."""
    document: dict[str, Numbers] = json.loads(STORED.read_text())
    return document


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A line for everything that is not the same to 1e-6: where, old and new."""
    old, new = dict(_leaves(before)), dict(_leaves(now))
    return [
        f"{name}: {old.get(name, 'nothing')} -> {new.get(name, 'nothing')}"
        for name in dict.fromkeys([*old, *new])
        if name not in old or name not in new or not _same(old[name], new[name])
    ]


def _same(old: object, new: object) -> bool:
    if isinstance(old, float) and isinstance(new, float):
        return math.isclose(old, new, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    return old == new


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, object]]:
    """Every single value with the path to it; of what is at a budget the budget is the path."""
    if isinstance(value, Mapping):
        items = [(str(key), each) for key, each in value.items()]
    elif isinstance(value, Sequence) and not isinstance(value, str):
        items = [
            (f"{each['budget']:.4g}" if isinstance(each, Mapping) else str(place), each)
            for place, each in enumerate(value)
        ]
    else:
        yield name, float(value) if isinstance(value, int) else value
        return
    for key, each in items:
        yield from _leaves(each, f"{name} {key}".strip())


def _written(numbers: Mapping[str, Numbers]) -> str:
    """The JSON, with a line for each quantity, setting and budget of a sweep."""
    sweeps = []
    for name, own in numbers.items():
        lines = [f'  "{key}": {json.dumps(own[key])}' for key in own if key != "at"]
        budgets = ",\n".join(f"   {json.dumps(each)}" for each in own["at"])
        lines.append(f'  "at": [\n{budgets}\n  ]')
        sweeps.append(f'"{name}": {{\n' + ",\n".join(lines) + "\n }")
    return "{\n " + ",\n ".join(sweeps) + "\n}\n"


def _rounded(value: Any) -> Any:
    """Floats to nine digits."""
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def _numbers(names: Sequence[str]) -> Iterator[tuple[str, Numbers]]:
    """Of the sweeps and archives of these names."""
    for name in names:
        with tempfile.TemporaryDirectory() as directory:
            if name in ARCHIVES:
                yield from numbers_of_archive(name, Path(directory)).items()
            else:
                yield name, numbers_of_sweep(name, Path(directory))


if __name__ == "__main__":
    before = stored() if STORED.exists() else {}
    found = {name: _rounded(own) for name, own in _numbers(sys.argv[1:] or [*tables(), *ARCHIVES])}
    together = {**before, **found}
    # One that is simulated no more has no place.
    of_studies = (name for name in together if name.startswith(SWEEPS_OF_STUDIES))
    order = [*tables(), *of_studies]
    STORED.write_text(_written({name: together[name] for name in order if name in together}))
    for line in differences({name: before.get(name) for name in found}, found):
        sys.stdout.write(f"{line}\n")
