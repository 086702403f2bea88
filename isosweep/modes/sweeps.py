"""A sweep's directory: where it lies, what is stored in it, and how it is read again."""

import os
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from isosweep.config import overrides
from isosweep.config.base import close, flattened, is_place, replaced
from isosweep.config.sweep import OF_MODES, Mode, SweepConfig, sweep_config
from isosweep.config.trust import distrust, hidden, read_checked, trust_all, without_password
from isosweep.devices import visible_devices
from isosweep.errors import RecordError, SettingError
from isosweep.files import JsonObject, names, read_json, write_json, write_text
from isosweep.machine import available_cores, garbage_collection_paused
from isosweep.modes.terminal import typed
from isosweep.plan.cells import Plan
from isosweep.plan.document import plan_document, plan_from_document
from isosweep.plan.standing import PlanStanding, standing
from isosweep.reserved import RUNS, is_beside_sweeps
from isosweep.store.paths import SweepPaths
from isosweep.words.escape import printable

if TYPE_CHECKING:
    from isosweep.plan.study import Study

# Sweeps that are named where a name fits none: those of the likest names.
_NEAREST = 3
# The directory of sweeps of a command that names none.
_SWEEPS = "sweeps"
# Which sweep a command is about and what it does, and what says nothing of the sweep's runs.
_OF_COMMANDS = {
    *("mode", "sweep", "sweeps_dir", "confirm", "trust", "launcher", "tracking", "hydra"),
    *OF_MODES,
}
# Settings that a mode uses as they are typed, whatever the sweep was planned with; of those that
# analyse nothing, how it is analysed.
_USED: dict[Mode, set[str]] = {
    "analyse": {"analysis"},
    "compare": {"analysis"},
    "status": {"analysis"},
    "cancel": {"analysis"},
    "dashboard": {"analysis"},
    "recommend": {"analysis", "budget"},
    "next": {"search"},
}
# What brings settings of many groups, and no command types.
_EXPERIMENT, _DERIVED = "experiment", {"given", "loss_sources"}


@dataclass(frozen=True, kw_only=True)
class StoredSweep:
    """A sweep as its directory holds it: its settings, its plan, and its files."""

    config: SweepConfig
    plan: Plan
    paths: SweepPaths
    kind: Literal["planned", "imported"] = "planned"

    @property
    def name(self) -> str:
        """The directory's own name."""
        return self.paths.root.name

    @property
    def reference(self) -> str:
        """What `sweep` finds it by in a command that names no `sweeps_dir`: its name, or where it
        lies elsewhere its directory."""
        usual = self.paths.root.parent == Path(_SWEEPS).absolute()
        return self.name if usual else str(self.paths.root)

    def standing(self) -> PlanStanding:
        """How its runs stand at this moment, by their files."""
        return standing(self.plan, self.paths.run, self.config.health.stop)

    def collapsed(self) -> frozenset[str]:
        """Runs that its own analysis found to have lost what they had gained; none before it, nor
        where it cannot be read or is of a version that did not say."""
        found: set[str] = set()
        for axes in self.plan.axes:
            with suppress(OSError, ValueError):
                own = replace(self.paths, view=self.config.analysis.view(axes))
                answer = read_json(own.answer)
                found.update(answer.get("collapsed", ()) if isinstance(answer, dict) else ())
        return frozenset(found)

    def require_own(self, what: str) -> None:
        """Raise SettingError where the runs were trained elsewhere, which `what` is not for."""
        if self.kind == "imported":
            rule = f"has runs that were trained elsewhere; {what} takes runs of isosweep's own"
            nearest = f"mode=next {typed('sweep', self.reference)}, which proposes what to train"
            raise SettingError("sweep", self.paths.root, rule, nearest)

    def study(self) -> "Study":
        """What its settings imply: what a run of it takes.

        Raises SettingError where that is not the plan it holds, and as `resolve_stored` does.
        """
        from isosweep.plan.study import resolve_stored

        self.require_own("what goes on with a sweep")
        study = resolve_stored(self.config)
        if study.plan.plan_id != self.plan.plan_id:
            rule = (
                f"holds plan {self.plan.plan_id}, of which this version of isosweep would make "
                f"{study.plan.plan_id}"
            )
            raise SettingError("sweep", self.paths.root, rule, "mode=run, without sweep")
        return study


def stored_sweep(config: SweepConfig) -> StoredSweep:
    """The sweep that `sweep` names, or the newest, which standard error then names.

    Raises SettingError where there is none, and for settings that it does not have; RecordError
    where it is of another format.
    """
    root = find_root(config.sweep[0], config.sweeps_dir) if config.sweep else _newest(config)
    return _as_typed(read_sweep(root), config)


def named_sweeps(config: SweepConfig) -> list[tuple[str, StoredSweep]]:
    """All that `sweep` names, or the newest, each with the name to show it by."""
    if config.sweep is None:
        sweep = stored_sweep(config)
        return [(sweep.name, sweep)]
    roots = [find_root(name, config.sweeps_dir) for name in config.sweep]
    # Directories of one name are shown as they were given.
    alike = len({root.name for root in roots}) < len(roots)
    return [
        (given if alike else root.name, _as_typed(read_sweep(root), config))
        for given, root in zip(config.sweep, roots, strict=True)
    ]


@garbage_collection_paused()
def read_sweep(root: Path) -> StoredSweep:
    """The sweep in `root`. Raises RecordError where it cannot be read, which names the file."""
    document = _document(root / "plan.json")
    stored, foreign = _checked_document(root / "config.json")
    kind: Literal["planned", "imported"] = "planned"
    if document.get("kind") == "imported":
        # Of what was trained elsewhere no model, task or recipe is known: what programs take in
        # their place is nothing that anybody reads.
        kind, stored = "imported", _defaults() | stored
    # The plan first: of a sweep made by another version, its format is what to report.
    try:
        plan = plan_from_document(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"{root / 'plan.json'}: not a plan ({error!r})") from None
    sweeps = _sweeps_dir(root, stored, {run.run_id for run in plan.runs})
    stored = stored | {"sweeps_dir": str(sweeps), "sweep": [str(root)]}
    paths = SweepPaths(root, sweeps / RUNS)
    try:
        config = sweep_config(stored)
    except SettingError as error:
        # Nobody has typed it.
        rule = f"{error.rule} (stored in {root / 'config.json'})"
        nearest = "the version of isosweep that stored the sweep, or the file without this setting"
        raise SettingError(error.setting, error.value, rule, nearest) from None
    if foreign is not None:
        distrust(config, foreign)
    return StoredSweep(config=config, plan=plan, paths=paths, kind=kind)


def planned_run_ids(root: Path) -> set[str]:
    """Ids of the runs that the plan in `root` names, of any version and whatever its settings are.

    Raises RecordError where they cannot be read.
    """
    try:
        return {run["run_id"] for run in _document(root / "plan.json")["runs"]}
    except (KeyError, TypeError) as error:
        raise RecordError(f"{root / 'plan.json'}: not a plan ({error!r})") from None


@cache
def _defaults() -> JsonObject:
    """Every setting as it is by default; of what was trained, no name."""
    from isosweep.config.compose import config_of

    every = config_of([]).model_dump()
    unknown = {"name": "unknown"}
    return every | {name: every[name] | unknown for name in ("model", "task", "recipe", "hardware")}


def _document(path: Path) -> JsonObject:
    return _checked_document(path)[0]


def _checked_document(path: Path) -> tuple[JsonObject, str | None]:
    """The document of a file, and who else may have written that."""
    try:
        document, foreign = read_checked(path)
    except ValueError as error:
        raise RecordError(f"{path}: not JSON ({error})") from None
    if not isinstance(document, dict):
        raise RecordError(f"{path}: {'no such file' if document is None else 'not an object'}")
    return document, foreign


def _sweeps_dir(root: Path, stored: JsonObject, run_ids: Collection[str]) -> Path:
    """The directory whose runs/ has the runs of the sweep in `root`, whose settings are `stored`:
    where one of them lies as it did beside the sweep, else where they were.

    Raises RecordError where `stored` are no settings of a sweep.
    """
    if not isinstance(stored.get("sweeps_dir"), str):
        raise RecordError(f"{root / 'config.json'}: not the settings of a sweep (no sweeps_dir)")
    named = Path(stored["sweeps_dir"])
    (before,) = stored.get("sweep") or (named / root.name,)
    moved = Path(os.path.normpath(root / os.path.relpath(named, before)))
    there = set(run_ids).intersection(names(moved / RUNS))
    return moved if there or not (named / RUNS).is_dir() else named


def _newest(config: SweepConfig) -> Path:
    """The sweep that was launched last, of those that were only planned where no other is there."""
    known = sweep_roots(config.sweeps_dir)
    if not known:
        rule = f"not given, and {config.sweeps_dir} holds no sweep"
        raise SettingError("sweep", "null", rule, "mode=run, which makes one")
    launched = [root for root in known if not never_launched(root)]
    newest, *others = launched or known
    if config.mode == "cancel" and others:
        # What is stopped by mistake may have taken days to begin.
        rule = "not given, and there are several"
        raise SettingError("sweep", "null", rule, f"{typed('sweep', newest.name)}, the newest")
    note = "" if launched else "; it was never launched"
    line = f"sweep: {newest}, the newest in {config.sweeps_dir}{note}"
    sys.stderr.write(f"{printable(line)}\n")
    return newest


def find_root(given: str, sweeps_dir: str) -> Path:
    """The sweep of this name in `sweeps_dir`, or in this directory. Raises SettingError, which
    names the likest sweeps, where there is none."""
    for root in (Path(sweeps_dir).absolute() / given, Path(given).absolute()):
        if (root / "plan.json").exists():
            return root
    # A directory of sweeps means those in it.
    known = [str(Path(given) / root.name) for root in sweep_roots(given)]
    known = known or [root.name for root in sweep_roots(sweeps_dir)]
    nearest = ", ".join(f"sweep={each}" for each in close(given, known, _NEAREST))
    rule = "holds no plan.json, and is no name of a sweep"
    raise SettingError("sweep", given, rule, nearest or "mode=run, which makes one")


def sweep_roots(sweeps_dir: str) -> list[Path]:
    """The sweeps in `sweeps_dir`, that planned or launched last first."""
    # A line's end in a name would be one in scripts and in what is printed.
    plans = [
        (path.stat().st_mtime, path.parent)
        for path in Path(sweeps_dir).absolute().glob("*/plan.json")
        if path.parent.name.isprintable() and path.is_file()
    ]
    return [root for _, root in sorted(plans, reverse=True)]


def sweep_paths(study: "Study") -> SweepPaths:
    """Where the study's sweep lies: where `sweep` says, or under a name of its own in `sweeps_dir`.

    The runs of a sweep that exists are where that sweep has them, whatever `sweeps_dir` says.
    """
    config, plan = study.config, study.plan
    root = new_root(config, f"{config.model.name}-{config.task.name}-{plan.plan_id}")
    sweeps = Path(config.sweeps_dir).absolute()
    with suppress(RecordError, OSError):
        stored = _document(root / "config.json")
        if _document(root / "plan.json").get("plan_id") == plan.plan_id:
            sweeps = _sweeps_dir(root, stored, {run.run_id for run in plan.runs})
    return SweepPaths(root, sweeps / RUNS)


def new_root(config: SweepConfig, name: str) -> Path:
    """Where a sweep is made: where `sweep` says, or as `name` in `sweeps_dir`.

    Raises SettingError for the place of what isosweep keeps beside the sweeps.
    """
    sweeps = Path(config.sweeps_dir).absolute()
    (sweep,) = config.sweep or (name,)
    root = Path(sweep).absolute() if is_place(sweep) else sweeps / sweep
    if root.parent == sweeps and is_beside_sweeps(root.name):
        rule = "is the name of a file of isosweep's own"
        raise SettingError("sweep", root, rule, f"sweep={sweeps / f'my-{root.name}'}")
    return root


def never_launched(root: Path) -> bool:
    """Whether the sweep in `root` was only planned: nothing lies there but what that writes."""
    own = SweepPaths(root, root)
    planned = (own.plan, own.plan_csv, own.plan_page, own.config)
    return {path.name for path in planned} == {*names(root)}


def _as_typed(sweep: StoredSweep, command: SweepConfig) -> StoredSweep:
    """The sweep with the price of an hour that `command` types, which changes no run; trusted, if
    it says so. Raises SettingError as `_require_settings_of`."""
    if command.trust:
        trust_all()
    config, plan = sweep.config, sweep.plan
    if "hardware.dollars_per_hour" in command.given:
        price = command.hardware.dollars_per_hour
        config = replaced(config, hardware=replaced(config.hardware, dollars_per_hour=price))
        plan = replace(plan, pricing=replace(plan.pricing, dollars_per_hour=price))
    _require_settings_of(sweep.name, config, command)
    return replace(sweep, config=config, plan=plan)


def _require_settings_of(sweep: str, stored: SweepConfig, command: SweepConfig) -> None:
    """Raise SettingError for a setting of `command` that differs from the `stored` one of `sweep`,
    and that its mode would ignore."""
    left = _OF_COMMANDS | _USED.get(command.mode, set())
    asked, own = command.model_dump(), stored.model_dump()
    names = list(command.given)
    if _EXPERIMENT in names:
        left = left | _DERIVED
        names += flattened(asked)
    for name in names:
        value, known = _value(asked, name), _value(own, name)
        if name.partition(".")[0] in left or value == known:
            continue
        given = hidden(overrides.typed(value))
        kept = f"{name}={hidden(overrides.typed(known))}"
        rule = f"{sweep} has {kept}, and mode={command.mode} goes by what the sweep has"
        nearest = f"{kept}, or another sweep, which mode=run makes of these settings"
        if name == "budget_unit" and command.mode == "analyse":
            nearest = f"analysis.compute_axis={given}"
        raise SettingError(name, given, rule, nearest)


def _value(settings: dict[str, Any], name: str) -> Any:
    """A dotted setting, of a group the name of its choice; None of what was taken away."""
    value: Any = settings
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value.get("name", value) if isinstance(value, dict) else value


def own_plan(study: "Study", paths: SweepPaths) -> JsonObject | None:
    """The plan.json of the directory, None without one. Raises SettingError if it is of another
    plan."""
    plan, existing = study.plan, read_json(paths.plan)
    if existing is not None and existing["plan_id"] != plan.plan_id:
        rule = f"belongs to plan {existing['plan_id']}, and these settings make {plan.plan_id}"
        free = f"sweep={paths.root}-{plan.plan_id} (or leave sweep unset)"
        raise SettingError("sweep", paths.root, rule, free)
    return existing


def store_plan(
    study: "Study", paths: SweepPaths, notes: Sequence[str] = (), *, launches: bool = False
) -> None:
    """Write plan.json and config.json, without passwords, and the plan's page with its `notes`.

    What a sweep was launched with stays as it is, unless it is launched (`launches`) anew. Raises
    SettingError if the directory is another plan's.
    """
    from isosweep.plan.output import plan_csv, plan_page

    plan, config = study.plan, study.config
    try:
        existing = own_plan(study, paths)
        if existing is not None and not launches and not never_launched(paths.root):
            return
        paths.runs.mkdir(parents=True, exist_ok=True)
        paths.root.mkdir(parents=True, exist_ok=True)
        settings = _stored_form(config).model_dump() | {"budget": list(config.budgets)}
        settings |= {"sweeps_dir": str(paths.runs.parent), "sweep": [str(paths.root)]}
        write_json(paths.config, settings)
        write_text(paths.plan_csv, plan_csv(plan))
        command = f"python -m isosweep mode=resume {typed('sweep', paths.root)}"
        page = plan_page(study, paths.root.name, places_of(study), tuple(notes), command)
        write_text(paths.plan_page, page)
        # Last: whoever finds a plan.json finds the rest.
        write_json(paths.plan, plan_document(plan))
    except OSError as error:
        rule = f"must be a directory that can be written ({error.strerror}: {error.filename})"
        raise SettingError("sweep", paths.root, rule, "sweeps_dir=DIRECTORY") from None


def _stored_form(config: SweepConfig) -> SweepConfig:
    """The settings as a sweep's directory holds them, whatever command has named them."""
    tracking = config.tracking
    if tracking.uri is not None:
        tracking = replaced(tracking, uri=without_password(tracking.uri))
    return replaced(config, tracking=tracking, given=[], format="text")


def places_of(study: "Study") -> int | None:
    """Runs that can be alive at once: as configured, or what this machine holds; None: all of the
    plan, on a cluster, or as far as a machine without GPUs can tell."""
    launcher, hardware = study.config.launcher, study.config.hardware
    if launcher.name == "inline":
        return 1
    if launcher.max_parallel is not None:
        return launcher.max_parallel
    if launcher.name == "local" and hardware.device == "cpu":
        return max(1, available_cores() // study.config.devices_taken)
    gpus = len(visible_devices().names) if launcher.name == "local" else 0
    return gpus // hardware.devices_per_run or None
