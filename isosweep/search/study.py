"""A search as an Optuna study, by ask and tell: what was asked for, why, and what came of it.

A trial is a run: its parameters are n, B, the seed and the values of `grid.axes`; its intermediate
values, by the place of the milestone among the run's, are held-out rewards. User attributes hold
the run's id, the compute that it has spent, and every step that was asked of it, with the value
expected and what was known then. A trial stays open (RUNNING) as long as the search may ask for
more of its run. It is told COMPLETE, with the reward there, at the run's last milestone; PRUNED,
with the last reward, where the search stopped before that or the run diverged; FAIL where the run
was given up.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

from isosweep.errors import SettingError
from isosweep.files import JsonObject, open_to_append
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.search.candidates import Decision, Step
from isosweep.store.paths import SweepPaths

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.distributions import BaseDistribution
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

# How a trial ends.
Outcome = Literal["COMPLETE", "PRUNED", "FAIL"]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What has been asked of a run: the trial's number, its state in Optuna's words, and the
    furthest milestone, in the plan's budget unit; None of a run that was trained before."""

    number: int
    run_id: str
    state: str
    milestone: float | None


class SearchStudy:
    """The study of one sweep. Whoever drives the sweep alone writes to it."""

    def __init__(self, plan: Plan, paths: SweepPaths) -> None:
        """Open the study, or begin it. Raises SettingError where its journal cannot be read."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._distributions = _distributions(plan)
        with _opening(paths):
            _mend(paths.search)
            self._storage = _storage(paths)
            self._study: Study = optuna.create_study(
                study_name=plan.plan_id,
                storage=self._storage,
                direction="maximize",
                load_if_exists=True,
            )

    @property
    def asked(self) -> dict[str, Asked]:
        """What has been asked of each run that has a trial: by its newest one."""
        trials = self._study.get_trials(deepcopy=False)
        return {asked.run_id: asked for asked in map(_asked, trials)}

    def ask(self, runs: Mapping[str, PlannedRun], steps: Sequence[Step], known: JsonObject) -> None:
        """Write down that `steps` are asked for: further ones of open trials, or new trials.

        `known`: what was known when that was decided.
        """
        asked = self.asked
        for step in steps:
            entry = asdict(step) | {"unix_time": time.time(), "known": known}
            del entry["run_id"]
            before = asked.get(step.run_id)
            if before is not None and before.state == "RUNNING":
                trial = self._trial(before)
                trial.set_user_attr("steps", [*trial.user_attrs["steps"], entry])
            else:
                self.begin(runs[step.run_id], [entry], before)

    def begin(
        self, run: PlannedRun, steps: Sequence[JsonObject] = (), before: Asked | None = None
    ) -> None:
        """Add an open trial of a run; without `steps` it was trained before the search began.

        In one write: a trial that Optuna is asked for gets its parameters one by one, and of a
        driver killed between them some only.
        """
        from optuna.trial import TrialState, create_trial

        continues = {} if before is None else {"continues": before.number}
        trial = create_trial(
            state=TrialState.RUNNING,
            params=_parameters(run, self._distributions),
            distributions=self._distributions,
            user_attrs={"run_id": run.run_id, "steps": list(steps)} | continues,
        )
        self._study.add_trial(trial)

    def report(self, asked: Asked, rewards: Mapping[int, float], compute: float) -> None:
        """Write down the rewards of an open trial, by the milestone's place, and the compute that
        its run has spent, in the plan's budget unit."""
        trial, known = self._trial(asked), self._values(asked)
        for place, reward in rewards.items():
            if place not in known:
                trial.report(reward, place)
        if trial.user_attrs.get("compute") != compute:
            trial.set_user_attr("compute", compute)

    def tell(self, asked: Asked, how: Outcome, why: str) -> None:
        """Close an open trial. Without any reward none is COMPLETE: it is told PRUNED."""
        from optuna.trial import TrialState

        self._trial(asked).set_user_attr("ended", why)
        values = self._values(asked)
        if how == "COMPLETE" and values:
            self._study.tell(asked.number, values[max(values)])
        else:
            state = TrialState.FAIL if how == "FAIL" else TrialState.PRUNED
            self._study.tell(asked.number, state=state)

    def note(self, decision: Decision, known: JsonObject) -> None:
        """Write the newest decision down, whatever came of it."""
        document = asdict(decision) | {"unix_time": time.time(), "known": known}
        self._study.set_user_attr("decision", document)

    def _trial(self, asked: Asked) -> "Trial":
        from optuna import Trial

        return Trial(self._study, self._id(asked))

    def _values(self, asked: Asked) -> dict[int, float]:
        return self._storage.get_trial(self._id(asked)).intermediate_values

    def _id(self, asked: Asked) -> int:
        """What the storage calls a trial."""
        study = self._storage.get_study_id_from_name(self._study.study_name)
        return self._storage.get_trial_id_from_study_id_trial_number(study, asked.number)


def read_search(plan: Plan, paths: SweepPaths) -> JsonObject | None:
    """What the search's journal holds of this sweep, for people who look at it; None where nothing
    was begun. Raises SettingError where it cannot be read.

    `asked`: runs by their furthest milestone; `open`: those of them that the search may still ask
    more of; `decision`: the newest, as `SearchStudy.note` has it; `trials`: of each run the
    `state` and why it `ended` (None: it has not) by its newest trial, and the `steps` of all, as
    `SearchStudy.ask` has them.
    """
    import optuna

    if not paths.search.exists():
        return None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with _opening(paths):
            study = optuna.load_study(study_name=plan.plan_id, storage=_storage(paths))
            found = study.get_trials(deepcopy=False)
    except SettingError as error:
        # No study of this name.
        if isinstance(error.__cause__, KeyError):
            return None
        raise
    trials: JsonObject = {}
    for trial in found:
        known = trial.user_attrs
        before = trials.get(known["run_id"], {"steps": []})
        trials[known["run_id"]] = {
            "state": trial.state.name,
            "ended": known.get("ended"),
            "steps": [*before["steps"], *known["steps"]],
        }
    asked = [_asked(trial) for trial in found]
    return {
        "asked": {a.run_id: a.milestone for a in asked if a.milestone is not None},
        "open": [a.run_id for a in asked if a.state == "RUNNING"],
        "decision": study.user_attrs.get("decision"),
        "trials": trials,
    }


def _asked(trial: "FrozenTrial") -> Asked:
    return Asked(
        number=trial.number,
        run_id=trial.user_attrs["run_id"],
        state=trial.state.name,
        milestone=max((step["milestone"] for step in trial.user_attrs["steps"]), default=None),
    )


def _storage(paths: SweepPaths) -> "BaseStorage":
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    # Its lock is a symbolic link, which is made with exclusion on network file systems too.
    return JournalStorage(JournalFileBackend(str(paths.search)))


def _mend(journal: Path) -> None:
    """Take away a line whose writer was ended in the middle of it: the journal could not be read
    any more after the next one. Raises OSError for a link: Optuna would append to what it leads
    to."""
    if not os.path.lexists(journal):
        return
    with os.fdopen(open_to_append(journal), "rb+") as file:
        text = file.read()
        whole = text.rfind(b"\n") + 1
        if whole < len(text):
            file.truncate(whole)
            os.fsync(file.fileno())


@contextmanager
def _opening(paths: SweepPaths) -> Iterator[None]:
    """Raise whatever a journal that cannot be read makes of Optuna as a SettingError."""
    try:
        yield
    except Exception as error:
        journal, fault = paths.search, " ".join(str(error).split())[:300] or repr(error)
        nearest = (
            f"mv {quote(str(journal))} {quote(f'{journal}.old')}, and the same command: the search "
            "begins anew, from all that was trained"
        )
        rule = f"{journal} cannot be opened ({fault})"
        raise SettingError("search", journal.name, rule, nearest) from error


def _distributions(plan: Plan) -> "dict[str, BaseDistribution]":
    """What a trial's parameters may be: all that the plan has."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    generations = {run.num_generations for run in plan.runs}
    batches = {run.problems_per_batch for run in plan.runs}
    known: dict[str, BaseDistribution] = {
        "n": IntDistribution(min(generations), max(generations), log=True),
        "B": IntDistribution(min(batches), max(batches), log=True),
        "seed": CategoricalDistribution(sorted({run.seed for run in plan.runs})),
    }
    for name in sorted({name for run in plan.runs for name in run.axes}):
        values = dict.fromkeys(_plain(run.axes.get(name)) for run in plan.runs)
        known[name] = CategoricalDistribution(list(values))
    return known


def _parameters(run: PlannedRun, names: Iterable[str]) -> dict[str, Any]:
    own = {"n": run.num_generations, "B": run.problems_per_batch, "seed": run.seed}
    return {name: own[name] if name in own else _plain(run.axes.get(name)) for name in names}


def _plain(value: Any) -> str | float | bool | None:
    """A value of an axis as Optuna stores it: text of what is neither text nor a number."""
    plain = value is None or isinstance(value, str | int | float)
    return value if plain else json.dumps(value, sort_keys=True)
