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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

from isosweep.config.study import SearchConfig
from isosweep.config.trust import hidden, require_own
from isosweep.errors import SettingError
from isosweep.files import JsonObject, open_to_append
from isosweep.plan.cells import Plan, PlannedRun
from isosweep.search.steps import Decision, Step
from isosweep.store.paths import SweepPaths

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.distributions import BaseDistribution
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

# How a trial is told.
Told = Literal["COMPLETE", "PRUNED", "FAIL"]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What has been asked of a run: the trial's number, how it was told (None: it is open), and
    the furthest milestone, in the plan's budget unit; None of a run that was trained before."""

    number: int
    run_id: str
    told: str | None
    milestone: float | None


def study_name(plan: Plan, paths: SweepPaths, config: SearchConfig) -> str:
    """The study's name in its storage: by the sweep's plan, and in a database, which several sweeps
    share, by its directory too."""
    return plan.plan_id if config.storage is None else f"{paths.root.resolve()}-{plan.plan_id}"


class SearchStudy:
    """The study of one sweep. Whoever drives the sweep alone writes to it."""

    def __init__(self, plan: Plan, paths: SweepPaths, config: SearchConfig) -> None:
        """Open the study, or begin it. Raises SettingError where its storage cannot be opened."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._name = study_name(plan, paths, config)
        self._distributions = _distributions(plan)
        try:
            if config.storage is None:
                _mend(paths.search)
            self._storage = _storage(paths, config)
            self._study: Study = optuna.create_study(
                study_name=self._name,
                storage=self._storage,
                direction="maximize",
                load_if_exists=True,
            )
        except SettingError:
            raise
        except Exception as error:
            # What a database's driver raises is its own.
            raise _not_opened(paths, config, error) from error

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
            if before is not None and before.told is None:
                trial = self._trial(before.number)
                trial.set_user_attr("steps", [*trial.user_attrs["steps"], entry])
            else:
                self._begin(runs[step.run_id], [entry], before)

    def ask_known(self, run: PlannedRun) -> None:
        """A trial for a run that was trained before the search began."""
        self._begin(run, [], None)

    def saw(self, asked: Asked, rewards: Mapping[int, float], compute: float) -> None:
        """Write down the rewards of an open trial, by the milestone's place, and the compute that
        its run has spent, in the plan's budget unit."""
        trial, known = self._trial(asked.number), self._values(asked.number)
        for place, reward in rewards.items():
            if place not in known:
                trial.report(reward, place)
        if trial.user_attrs.get("compute") != compute:
            trial.set_user_attr("compute", compute)

    def tell(self, asked: Asked, how: Told, why: str) -> None:
        """Close an open trial. Without any reward none is COMPLETE: it is told PRUNED."""
        from optuna.trial import TrialState

        self._trial(asked.number).set_user_attr("ended", why)
        values = self._values(asked.number)
        if how == "COMPLETE" and values:
            self._study.tell(asked.number, values[max(values)])
        else:
            state = TrialState.FAIL if how == "FAIL" else TrialState.PRUNED
            self._study.tell(asked.number, state=state)

    def note(self, decision: Decision, known: JsonObject) -> None:
        """Write the newest decision down, whatever came of it."""
        document = asdict(decision) | {"unix_time": time.time(), "known": known}
        self._study.set_user_attr("decision", document)

    def _trial(self, number: int) -> "Trial":
        from optuna import Trial

        return Trial(self._study, self._id(number))

    def _values(self, number: int) -> dict[int, float]:
        return self._storage.get_trial(self._id(number)).intermediate_values

    def _id(self, number: int) -> int:
        """What the storage calls a trial."""
        study = self._storage.get_study_id_from_name(self._name)
        return self._storage.get_trial_id_from_study_id_trial_number(study, number)

    def _begin(self, run: PlannedRun, steps: list[JsonObject], before: Asked | None) -> None:
        """A new trial in one write: one that is asked for gets its parameters one by one, and of a
        driver killed between them some only."""
        from optuna.trial import TrialState, create_trial

        attributes: JsonObject = {"run_id": run.run_id, "steps": steps}
        if before is not None:
            attributes["continues"] = before.number
        trial = create_trial(
            state=TrialState.RUNNING,
            params=_parameters(run, self._distributions),
            distributions=self._distributions,
            user_attrs=attributes,
        )
        self._study.add_trial(trial)


def read_search(plan: Plan, paths: SweepPaths, config: SearchConfig) -> JsonObject | None:
    """What the search's storage holds of this sweep, for people who look at it; None where nothing
    was begun. Raises SettingError where it cannot be read.

    `asked`: runs by their furthest milestone; `open`: those of them that the search may still ask
    more of; `decision`: the newest, as `SearchStudy.note` has it; `trials`: of each run the
    `state` and why it `ended` (None: it has not) by its newest trial, and the `steps` of all, as
    `SearchStudy.ask` has them.
    """
    try:
        return _read(plan, paths, config)
    except KeyError:
        # No study of this name.
        return None
    except SettingError:
        raise
    except Exception as error:
        raise _not_opened(paths, config, error) from error


def _read(plan: Plan, paths: SweepPaths, config: SearchConfig) -> JsonObject | None:
    import optuna

    if config.storage is None and not paths.search.exists():
        return None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = _storage(paths, config)
    study = optuna.load_study(study_name=study_name(plan, paths, config), storage=storage)
    found = study.get_trials(deepcopy=False)
    asked = [_asked(trial) for trial in found]
    return {
        "asked": {a.run_id: a.milestone for a in asked if a.milestone is not None},
        "open": [a.run_id for a in asked if a.told is None],
        "decision": study.user_attrs.get("decision"),
        "trials": _trials_document(found),
    }


def _trials_document(trials: "Sequence[FrozenTrial]") -> JsonObject:
    documents: JsonObject = {}
    for trial in trials:
        run_id = trial.user_attrs["run_id"]
        before = documents.get(run_id, {"steps": []})
        documents[run_id] = {
            "state": trial.state.name,
            "ended": trial.user_attrs.get("ended"),
            "steps": [*before["steps"], *trial.user_attrs["steps"]],
        }
    return documents


def _asked(trial: "FrozenTrial") -> Asked:
    steps = trial.user_attrs["steps"]
    return Asked(
        number=trial.number,
        run_id=trial.user_attrs["run_id"],
        told=trial.state.name if trial.state.is_finished() else None,
        milestone=max((step["milestone"] for step in steps), default=None),
    )


def _storage(paths: SweepPaths, config: SearchConfig) -> "BaseStorage":
    require_own(("search.storage", config.storage))
    from optuna import storages
    from optuna.storages.journal import JournalFileBackend

    if config.storage is not None:
        return storages.RDBStorage(config.storage)
    # Its lock is a symbolic link, which is made with exclusion on network file systems too.
    return storages.JournalStorage(JournalFileBackend(str(paths.search)))


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


def _not_opened(paths: SweepPaths, config: SearchConfig, error: Exception) -> SettingError:
    # Without the statement and the link that SQLAlchemy adds.
    said = " ".join(str(error).partition("\n[SQL")[0].partition("\n(Background")[0].split())[:300]
    said = said or repr(error)
    if config.storage is None:
        rule = f"{paths.search} cannot be opened ({said})"
        nearest = (
            f"mv {quote(str(paths.search))} {quote(f'{paths.search}.old')}, and the same command: "
            "the search begins anew, from all that was trained"
        )
        return SettingError("search.storage", "null", rule, nearest)
    rule = f"cannot be opened ({hidden(said)})"
    nearest = "search.storage=null"
    if "password" in said.lower():
        nearest = "its password in PGPASSWORD or ~/.pgpass, or the address typed again with it"
    return SettingError("search.storage", hidden(config.storage), rule, nearest)


def shown_storage(paths: SweepPaths, config: SearchConfig) -> str:
    """Where the search is written down, without a password."""
    return str(paths.search) if config.storage is None else hidden(config.storage)


def require_storage(url: str) -> None:
    """Raise SettingError for a database of no kind that is known and has its driver here, or whose
    file has no directory; nothing is connected to."""
    from sqlalchemy import create_engine

    try:
        engine = create_engine(url)
    except Exception as error:
        rule = f"cannot be opened ({hidden(str(error))})"
        raise SettingError("search.storage", hidden(url), rule, "search.storage=null") from error
    file = engine.url.database
    if engine.dialect.name == "sqlite" and file and not Path(file).absolute().parent.is_dir():
        rule = f"{Path(file).parent} is no directory"
        raise SettingError("search.storage", hidden(url), rule, "search.storage=null")


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
