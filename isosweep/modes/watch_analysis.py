"""What a sweep's records say so far, for the page of `mode=watch`: a process of its own.

    python -P -m isosweep.modes.watch_analysis SWEEP      prints one JSON document, writes no file

The page answers meanwhile, and Ctrl-C at the terminal does not reach it.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from isosweep.analysis.conclude import collapsed_runs, conclude
from isosweep.analysis.figures.description import Figure, LeftOut
from isosweep.analysis.figures.draw_matplotlib import as_svg
from isosweep.analysis.figures.optima import best_generations_figure
from isosweep.analysis.figures.reward import reward_figure
from isosweep.analysis.load import load_view
from isosweep.analysis.statistics.findings import find
from isosweep.errors import IsosweepError
from isosweep.files import JsonObject
from isosweep.modes.directory import StoredSweep, read_sweep
from isosweep.modes.display_search import stored_course
from isosweep.plan.cells import variant_label

_FIGURES: Final = {"reward": reward_figure, "best_n": best_generations_figure}


def analysis_document(sweep: StoredSweep) -> JsonObject:
    """Answer and figures of every variant of `grid.axes`, and ids of the runs that collapsed."""
    course = stored_course(sweep)
    variants: list[JsonObject] = []
    collapsed: set[str] = set()
    for place, axes in enumerate(sweep.plan.axes):
        data = replace(load_view(sweep.paths, sweep.config.analysis, axes), course=course)
        findings = find(data, sweep.config.analysis)
        collapsed.update(collapsed_runs(data))
        described = {name: make(data, findings) for name, make in _FIGURES.items()}
        variants.append(
            {
                "name": variant_label(axes) if axes else "",
                "answer": conclude(data, findings).document(),
                "figures": {
                    name: _figure(f"{name}-{place}", figure) for name, figure in described.items()
                },
            }
        )
    return {"fault": None, "collapsed": sorted(collapsed), "variants": variants}


def _figure(name: str, figure: Figure | LeftOut) -> JsonObject:
    """A figure with its words, or why there is none."""
    if isinstance(figure, LeftOut):
        return {"svg": None, "left_out": figure.reason}
    return {"svg": as_svg(name, figure), "title": figure.title, "caption": figure.caption}


def main(root: Path) -> None:
    """Write the document of the sweep in `root`, or of what keeps it from being analysed."""
    try:
        document = analysis_document(read_sweep(root))
    except (IsosweepError, OSError) as error:
        document = {"fault": str(error)}
    sys.stdout.write(json.dumps(document, allow_nan=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
