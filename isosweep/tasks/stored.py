"""What a run's folder keeps of its problems, so that a later attempt cannot meet others."""

from collections.abc import Mapping, Sequence
from typing import Any

from isosweep.config.task import TaskConfig
from isosweep.errors import RecordError
from isosweep.files import read_json, write_json
from isosweep.store.paths import RunPaths
from isosweep.tasks import Problem, problem_sets, problems_digest


def hold_problems(
    run: RunPaths, task: TaskConfig, further: Mapping[str, Sequence[Problem]] | None = None
) -> None:
    """Store the digest of the run's problems, or compare it with what an earlier attempt stored.

    `further`: the problems of its further evaluation sets, by the set's name. Problems chosen by
    difficulty have to be loaded (`load_selection`). Raises RecordError if the problems are others
    now: the data, or what draws them, has changed.
    """
    digest = problems_digest(task, further)
    try:
        stored = read_json(run.problems)
        held = None if stored is None else stored["sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise RecordError(f"{run.problems}: cannot be read ({error!r}); remove it") from None
    if stored is None:
        sets = problem_sets(task)
        counts: dict[str, Any] = {"training": len(sets.training), "heldout": len(sets.heldout)}
        if further:
            counts["sets"] = {name: len(problems) for name, problems in further.items()}
        document = {"sha256": digest, **counts, "dropped": sets.dropped}
        write_json(run.problems, document)
    elif held != digest:
        raise RecordError(
            f"{run.problems}: this run's problems had the sha256 "
            f"{str(held)[:12]}..., those drawn now have "
            f"{digest[:12]}...: the data, or a package that draws them, has changed. "
            f"Put that back, or remove {run.root} to train the run anew"
        )
