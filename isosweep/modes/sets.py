"""Further evaluation sets of runs that exist: a run has each of them at every record, or not."""

from isosweep.config.base import replaced
from isosweep.config.evaluation import set_identities
from isosweep.errors import IsosweepError, SettingError
from isosweep.files import read_json
from isosweep.plan.spec import RunSpec
from isosweep.plan.study import Study
from isosweep.store.attempts import newest
from isosweep.store.paths import RunPaths, SweepPaths


def require_sets(study: Study, paths: SweepPaths) -> None:
    """Raise SettingError where a run that has begun is not evaluated on a set that is asked for.

    Records that it has lack the set, and its checkpoints are those of a few of their steps.
    """
    lacking: dict[str, list[str]] = {}
    for run_id, spec in study.specs.items():
        files = paths.run(run_id)
        attempt = newest(files) if spec.evaluation.sets else None
        if attempt is None or not attempt.begun:
            continue
        stored = _stored_spec(files)
        known = set_identities(stored) if stored else {}
        for name, own in set_identities(spec).items():
            if known.get(name) != own:
                lacking.setdefault(name, []).append(run_id)
    if not lacking:
        return
    name, runs = next(iter(lacking.items()))
    rule = (
        f"{len(runs)} of {len(study.specs)} runs have begun without this set, as it is here, and "
        "the checkpoints that their records were taken of are not all kept, so that it cannot be "
        f"added to them; one is {runs[0]}"
    )
    without = " ".join(f"~evaluation.sets.{each}" for each in lacking)
    raise SettingError(
        f"evaluation.sets.{name}",
        "{...}",
        rule,
        f"{without}, or sweeps_dir=DIRECTORY of its own, where the runs are trained anew",
    )


def _stored_spec(files: RunPaths) -> RunSpec | None:
    """The spec that the run's worker reads; None where it is not there or is none."""
    try:
        document = read_json(files.spec)
        return None if document is None else RunSpec.from_json(document["spec"])
    except (KeyError, TypeError, ValueError, AttributeError, IsosweepError):
        return None


def with_stored_sets(spec: RunSpec, files: RunPaths) -> RunSpec:
    """The spec with the sets that its run has already, which other sweeps may have asked for."""
    stored = _stored_spec(files)
    sets = {**((stored and stored.evaluation.sets) or {}), **(spec.evaluation.sets or {})}
    return replaced(spec, evaluation=replaced(spec.evaluation, sets=sets or None))
