"""A sweep's directory: where it lies, what is stored in it, and how it is read again."""

from dataclasses import asdict, dataclass
from pathlib import Path

from isosweep.config.sweep import SweepConfig, sweep_config
from isosweep.errors import SettingError
from isosweep.files import read_json, write_json, write_text
from isosweep.plan.cells import Plan, plan_from_document
from isosweep.plan.output import plan_csv, plan_page
from isosweep.plan.study import Study, plan_document, resolve, resolve_stored
from isosweep.store.paths import SweepPaths


@dataclass(frozen=True, kw_only=True)
class StoredSweep:
    """A sweep as its directory holds it: its settings, its plan, and its files."""

    config: SweepConfig
    plan: Plan
    paths: SweepPaths

    @property
    def name(self) -> str:
        """The directory's own name."""
        return self.paths.root.name

    def study(self) -> Study:
        """What its settings imply: what a run of it takes.

        Raises SettingError where that is not the plan it holds, and as `resolve_stored` does.
        """
        study = resolve_stored(self.config)
        if study.plan.plan_id != self.plan.plan_id:
            rule = (
                f"holds plan {self.plan.plan_id}, of which this version of isosweep would make "
                f"{study.plan.plan_id}"
            )
            raise SettingError("sweep_dir", self.paths.root, rule, "mode=run, without sweep_dir")
        return study


def sweep_paths(study: Study) -> SweepPaths:
    """Where the study's sweep lies: `sweep_dir`, or a name of its own in `sweeps_dir`."""
    config = study.config
    sweeps = Path(config.sweeps_dir).absolute()
    if config.sweep_dir is not None:
        return SweepPaths(Path(config.sweep_dir).absolute(), sweeps / "runs")
    name = f"{config.model.name}-{config.task.name}-{study.plan.plan_id}"
    return SweepPaths(sweeps / name, sweeps / "runs")


def stored_sweep(config: SweepConfig) -> StoredSweep:
    """The sweep at `sweep_dir`, or the one that this very config plans.

    Raises SettingError where there is none, RecordError where it is of another format.
    """
    if config.sweep_dir is not None:
        root = Path(config.sweep_dir).absolute()
    else:
        root = sweep_paths(resolve(config)).root
    document, stored = read_json(root / "plan.json"), read_json(root / "config.json")
    if document is None or stored is None:
        known = sorted(p.parent for p in Path(config.sweeps_dir).glob("*/plan.json"))
        nearest = f"sweep_dir={known[-1]}" if known else "mode=run, which makes one"
        raise SettingError("sweep_dir", root, "holds no plan.json", nearest)
    paths = SweepPaths(root, Path(stored["sweeps_dir"]) / "runs")
    # The plan first: of a sweep made by another version, its format is what to report.
    plan = plan_from_document(document)
    return StoredSweep(config=sweep_config(stored), plan=plan, paths=paths)


def store_plan(study: Study, paths: SweepPaths, places: int | None = None) -> None:
    """Write plan.json and config.json; `places`: runs at once.

    Raises SettingError if the directory is another plan's.
    """
    sweeps, plan, config = paths.runs.parent, study.plan, study.config
    try:
        paths.runs.mkdir(parents=True, exist_ok=True)
        paths.root.mkdir(parents=True, exist_ok=True)
        existing = read_json(paths.plan)
        if existing is not None and existing["plan_id"] != plan.plan_id:
            rule = f"belongs to plan {existing['plan_id']}, and these settings make {plan.plan_id}"
            free = f"sweep_dir={paths.root}-{plan.plan_id} (or leave sweep_dir unset)"
            raise SettingError("sweep_dir", paths.root, rule, free)
        settings = asdict(config) | {"sweeps_dir": str(sweeps), "budget": list(config.budgets)}
        write_json(paths.config, settings)
        write_text(paths.plan_csv, plan_csv(plan))
        write_text(paths.plan_page, plan_page(plan, paths.root.name))
        # Last: whoever finds a plan.json finds the rest.
        write_json(paths.plan, plan_document(study, places))
    except OSError as error:
        rule = f"must be a directory that can be written ({error.strerror}: {error.filename})"
        raise SettingError("sweep_dir", paths.root, rule, "sweeps_dir=DIRECTORY") from None
