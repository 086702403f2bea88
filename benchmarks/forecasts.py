"""What the forms of forecasts give: published and simulated runs, forecast from their first part.

    python benchmarks/forecasts.py --curves rl_curves.csv

Prints, with all forms, without "it stays", with it alone, and for the mean of the last three
records: the RMSE of the median run and the mean over runs, the mean interval score (Winkler's) and
the share of later records inside the 90% interval, each from the first part of the records.
`--curves`: a file of published runs, which is not shipped, with the columns run, rl_eflops and one
for each benchmark of `--weights`. `--sweeps`: simulated sweeps of ten runs, in six worlds.
"""

import csv
import zlib
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from unittest import mock

import alone
import numpy as np
from coverage import CONFIG, DESIGNS, named
from frame import Goal, benchmark, table

from isosweep.analysis.arrays import BoolArray, FloatArray
from isosweep.analysis.simulation.presets import presets_of
from isosweep.analysis.simulation.sweep import sweep_of
from isosweep.analysis.statistics import forecast
from isosweep.analysis.statistics.forecast import MIN_RECORDS, Forecast
from isosweep.analysis.statistics.forms import FORMS

GOALS = {
    "better": Goal(
        "mean RMSE of all forms over that of the last three records, worst table", "at most", 1.0
    )
}
_CONFIDENCE, _LAST, _LAST_ROW = 0.9, 3, "as the last three records"
# Problems of each benchmark of the published runs (RETU, arXiv 2512.11470).
_WEIGHTS = "gsm8k:1317,olympiad_bench:291,math:237,minerva:262,aime:25,aime25:25"
QUICK = {"sweeps": 1}

# Compute and reward of each record: (records,) each.
Run = tuple[FloatArray, FloatArray]


def published(path: Path, weights: str) -> list[Run]:
    """The runs of a file, the weighted mean of its columns in per cent."""
    counts = {name: float(count) for name, count in (w.split(":") for w in weights.split(","))}
    runs: dict[str, list[tuple[float, float]]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            total = sum(count * float(line[name]) for name, count in counts.items())
            at = float(line["rl_eflops"])
            runs.setdefault(line["run"], []).append((at, total / sum(counts.values()) / 100))
    return [_columns(sorted(records)) for records in runs.values()]


def _columns(records: list[tuple[float, float]]) -> Run:
    compute, reward = np.array([record for record in records if record[0] > 0]).T
    return compute, reward


def simulated(worlds: list[str], first: int, sweeps: int) -> list[Run]:
    """Every run of simulated sweeps of ten runs, without the record before training."""
    design = DESIGNS["ten"]
    config = replace(CONFIG, decades=design.decades)
    known = presets_of(alone.read(design))
    runs = []
    for world in worlds:
        for sweep in range(first, first + sweeps):
            data = sweep_of(
                known[world],
                alone.planned(design),
                config,
                (zlib.crc32(world.encode()), sweep),
                num_problems=design.problems,
                samples_per_problem=8,
            )
            runs += [_columns([*zip(c.compute, c.reward, strict=True)]) for c in data.curves]
    return runs


def by_forms(kept: Callable[[str], bool]) -> Callable[[Run, FloatArray], Forecast | None]:
    """Forecasts by the forms that are kept."""
    forms = {name: form for name, form in FORMS.items() if kept(name)}

    def of(run: Run, at: FloatArray) -> Forecast | None:
        with mock.patch.object(forecast, "FORMS", forms):
            return forecast.forecast(*run, at, _CONFIDENCE)

    return of


def as_before(run: Run, at: FloatArray) -> Forecast:
    """The mean of the last records, for ever."""
    flat = np.full(len(at), run[1][-_LAST:].mean())
    return Forecast(median=flat, low=flat * np.nan, high=flat * np.nan)


FORECASTS: Mapping[str, Callable[[Run, FloatArray], Forecast | None]] = {
    "all forms": by_forms(lambda name: True),
    "without `it stays`": by_forms(lambda name: name != "stays"),
    "`it stays` alone": by_forms(lambda name: name == "stays"),
    _LAST_ROW: as_before,
}
# Shares of the records that are known.
PARTS = {"first half": (1, 2), "first third": (1, 3), "first two thirds": (2, 3)}


def score(
    run: Run, part: tuple[int, int], of: Callable[[Run, FloatArray], Forecast | None]
) -> tuple[float, float, BoolArray]:
    """RMSE and mean interval score of the records after the first part, and which are held."""
    compute, reward = run
    known = max(MIN_RECORDS, len(compute) * part[0] // part[1])
    at, later = compute[known:], reward[known:]
    found = of((compute[:known], reward[:known]), at)
    assert found is not None
    rmse = float(np.sqrt(((found.median - later) ** 2).mean()))
    below, above = np.maximum(found.low - later, 0), np.maximum(later - found.high, 0)
    winkler = found.high - found.low + 2 / (1 - _CONFIDENCE) * (below + above)
    return rmse, float(winkler.mean()), (found.low <= later) & (later <= found.high)


OPTIONS = {
    "--sweeps": (4, "simulated sweeps of each world"),
    "--first": (3000, "number of the first sweep's seed"),
    "--worlds": alone.WORLDS,
    "--curves": {"metavar": "FILE", "type": Path, "help": "published runs, as a CSV file"},
    "--weights": (_WEIGHTS, "column:problems of each benchmark in it"),
}


def measure(options: Namespace) -> dict[str, float]:
    """Print the table; the figure of the goal."""
    row = table("runs", "from", "forecast", "RMSE, median", "mean", "interval score", "held")
    runs = {"simulated": simulated(named(options.worlds), options.first, options.sweeps)}
    if options.curves:
        runs = {"published": published(options.curves, options.weights), **runs}
    ratios = []
    for name, group in runs.items():
        for part, share in PARTS.items():
            errors = []
            for way, of in FORECASTS.items():
                rmse, winkler, held = zip(*(score(run, share, of) for run in group), strict=True)
                scores = np.median(rmse), np.mean(rmse), np.mean(winkler)
                errors.append(float(np.mean(rmse)))
                inside = "–" if way == _LAST_ROW else f"{np.concatenate(held).mean():.0%}"
                row(
                    f"{name}, {len(group)}",
                    part,
                    way,
                    *("–" if np.isnan(s) else f"{s:.4f}" for s in scores),
                    inside,
                )
            ratios.append(errors[0] / errors[-1])
    return {"better": max(ratios)}


if __name__ == "__main__":
    benchmark(measure, GOALS, QUICK, OPTIONS)
