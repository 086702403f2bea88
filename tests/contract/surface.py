"""How settings, files and fields are called on isosweep's public surfaces.

Tests of `tests/contract` use commands, their files and `import isosweep` alone, and reach them
through this file: a renaming changes it, and no rewrite of the code behind changes any other.
"""

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import isosweep as library
from tests.commands import Command, in_process
from tests.conftest import SMALL, isosweep, refused
from tests.runs import wait_for

if TYPE_CHECKING:
    import pandas

__all__ = [
    "NOTHING_IS_TRAINED",
    "PLANS",
    "QUANTITIES",
    "TINY",
    "TWO_RUNS",
    "Answers",
    "Plan",
    "Run",
    "answer_of",
    "answers_of_frame",
    "answers_of_stored",
    "completions_of",
    "conclusions",
    "document_of",
    "import_rows",
    "isosweep",
    "jobs_of",
    "records_of",
    "refused",
    "run_ids",
    "runs_of",
    "start",
    "status_of",
    "stored_plan",
    "wait_for",
    "wait_until_training",
    "write_csv",
]

# A command that should have been refused, and is not, is refused by this.
NOTHING_IS_TRAINED = "launcher.max_device_hours=1e-9"

# Twelve sweeps by name: every budget unit, grid and kind of hardware, and most rules.
PLANS = {
    "bare": "",
    "language_model": "budget=1e20 model=qwen-1.5b",
    "sharded": "budget=[1e20,1e21] model=qwen-7b hardware=h100 hardware.devices_per_run=8 "
    "hardware.sharding=fsdp launcher=slurm",
    "fixed_B": "+experiment=playbook_fix_B_easy",
    "fixed_batch": "+experiment=playbook_fix_batch",
    "joint": "+experiment=playbook_joint budget=[655360,3997696]",
    "rollouts": "budget=[4096,8192] budget_unit=rollouts recipe.micro_batch=32",
    "tokens": "budget=[1e5,3e5] budget_unit=tokens recipe.mini_batches=8",
    "lora": "budget=1e20 model=qwen-7b hardware=h100 grid.axes={recipe.lora_rank:[null,16]}",
    "axes": "grid.axes={recipe:[grpo,dapo],task.num_train_problems:[2,32]}",
    "laptop": "+experiment=laptop/smollm2",
    "scalerl": "+experiment=scalerl_recipe grid.problems_per_batch=[12,36,48] grid.seeds=[0,1]",
}


class Candidate(NamedTuple):
    """One (n, B) at one budget and seed; `axes`: its values of `grid.axes`, as JSON."""

    axes: str
    budget: float
    n: int
    B: int
    seed: int


class Cell(NamedTuple):
    """What a planned candidate trains: T steps, compute in the budget's unit, FLOPs, its run."""

    steps: int
    compute: float
    flops: float
    run: str


class Rejection(NamedTuple):
    """Why a candidate is not planned: T nearest to the budget, all rules it breaks, a sentence."""

    steps: int
    rules: tuple[str, ...]
    reason: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A stored plan, and the candidates that its settings enumerate."""

    unit: str
    budgets: list[float]
    tolerance: float
    enumerated: list[Candidate]
    planned: list[tuple[Candidate, Cell]]
    rejected: list[tuple[Candidate, Rejection]]

    @classmethod
    def made_by(cls, typed: str, cwd: Path) -> "Plan":
        """Plan in an empty `cwd` what is typed."""
        done = in_process(("mode=plan", "sweep=planned", *typed.split()), cwd)
        assert done.returncode == 0, done.stdout + done.stderr
        stored = cwd / "sweeps" / "planned"
        plan = json.loads((stored / "plan.json").read_text())
        grid = json.loads((stored / "config.json").read_text())["grid"]
        axes = grid["axes"] or {}
        enumerated = [
            Candidate(_text(dict(zip(axes, values, strict=True))), budget, n, B, seed)
            for *values, budget, n, B, seed in product(
                *axes.values(),
                plan["budgets"],
                grid["num_generations"],
                grid["problems_per_batch"],
                grid["seeds"],
            )
            if grid["completions_per_step"] is None or n * B in grid["completions_per_step"]
        ]
        planned = []
        for row in plan["cells"]:
            spent = float(row["planned_compute"]), float(row["planned_flops"])
            planned.append(Cell(row["num_steps"], *spent, row["run_id"]))
        rejected = []
        for row in plan["rejected"]:
            assert row["rule"] == row["rules"][0]
            rejected.append(Rejection(row["num_steps"], tuple(row["rules"]), row["reason"]))
        return cls(
            unit=plan["budget_unit"],
            budgets=plan["budgets"],
            tolerance=grid["tolerance"],
            enumerated=enumerated,
            planned=list(zip(map(_candidate, plan["cells"]), planned, strict=True)),
            rejected=list(zip(map(_candidate, plan["rejected"]), rejected, strict=True)),
        )


def _candidate(row: Mapping[str, Any]) -> Candidate:
    at = row["num_generations"], row["problems_per_batch"]
    return Candidate(_text(row["axes"]), float(row["budget"]), *at, row["seed"])


def _text(axes: Mapping[str, object]) -> str:
    return json.dumps(axes, sort_keys=True)


# What a verdict may be of: n_d, the smallest n that is good enough, and n*, the best n.
QUANTITIES = ("enough", "best")
# What the analysis of one sweep concluded of each quantity, as `answer.json` has it.
Answers = dict[str, dict[str, Any]]


def write_csv(path: Path, rows: Iterable[Mapping[str, object]]) -> Path:
    """Write rows that have the same columns, and return the path."""
    listed = list(rows)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(listed[0]))
        writer.writeheader()
        writer.writerows(listed)
    return path


def answer_of(sweep_dir: Path, quantity: str = "enough") -> dict[str, Any]:
    """What the analysis of a sweep concluded of n_d (`enough`) or n* (`best`)."""
    view = sweep_dir / "analysis" / ("" if quantity == "enough" else f"n={quantity}")
    document: dict[str, Any] = json.loads((view / "answer.json").read_text())
    return document


def import_rows(
    cwd: Path,
    rows: Iterable[Mapping[str, object]],
    *overrides: str,
    name: str = "imported",
    quantity: str = "enough",
) -> tuple[str, dict[str, Any]]:
    """Import a table, with `overrides`, and analyse it: what the terminal shows, and the answer."""
    table = write_csv(cwd / f"{name}.csv", rows)
    imported = isosweep(
        "mode=import", f"import.files={table}", f"sweep={name}", *overrides, cwd=cwd
    )
    judged = f"analysis.quantity={quantity}"
    done = isosweep("mode=analyse", f"sweep={name}", judged, cwd=cwd)
    said = imported.stdout + imported.stderr + done.stdout + done.stderr
    return said, answer_of(cwd / "sweeps" / name, quantity)


def answers_of_frame(frame: "pandas.DataFrame", sweep_dir: Path) -> Answers:
    """Import a frame as `mode=import` does its table, in this process, and analyse it."""
    return _answers(library.from_frame(frame, sweep_dir))


def answers_of_stored(sweep_dir: Path) -> dict[str, Answers]:
    """The answers of every variant of a stored sweep, by name, in this process."""
    return {name: _answers(one) for name, one in library.open(sweep_dir).variants.items()}


def _answers(sweep: Any) -> Answers:
    return {q: sweep.view(quantity=q).verdict.answer.document() for q in QUANTITIES}


def conclusions(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The verdict of an answer and the probabilities that decide it; the setting to use with its
    reward; and at every budget n*, n_d and the reward to expect of every n."""
    growth, use = answer["growth"], answer["use"]
    return {
        "verdict": answer["verdict"],
        "probabilities": growth and {name: growth[name] for name in _PROBABILITIES},
        "rate": growth and _ends(growth["rate"]),
        "use": use
        and {
            "n": use["num_generations"],
            "B": use["problems_per_batch"],
            "T": use["num_steps"],
            "budget": use["budget"],
            "measured": use["measured"],
            "expected": use["expected"],
            "interval": use["interval"],
        },
        "at": [
            _at(optimum, at["choices"])
            for optimum, at in zip(answer["optima"], answer["generations"], strict=True)
        ],
    }


_PROBABILITIES = (
    *("grew", "fell", "unchanged", "moved", "closed"),
    *("stopped", "settled", "rising"),
)


def _at(optimum: Mapping[str, Any], choices: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One budget: n* and n_d as [median, low, high, open below, open above]."""
    return {
        "budget": optimum["budget"],
        "best": optimum["best"],
        "n_star": _open_ends(optimum["n_star"]),
        "n_d": _open_ends(optimum["n_d"]),
        "expected": {str(each["cell"]["num_generations"]): each["expected"] for each in choices},
    }


def _open_ends(n: Mapping[str, float] | None) -> list[float] | None:
    return None if n is None else [*_ends(n), n["open_below"], n["open_above"]]


def _ends(interval: Mapping[str, float]) -> list[float]:
    return [interval["median"], interval["low"], interval["high"]]


# Runs of a second or two each, which nothing tracks.
TINY = (*SMALL, "tracking=none")
# Two of them (n = 2 and 4), to two budgets: the sweep of the fixture `straight`.
TWO_RUNS = ("budget=[6.4e9,1.28e10]", *TINY)


@dataclass(frozen=True)
class Run:
    """The files of one training run."""

    root: Path

    @property
    def run_id(self) -> str:
        """The name of its directory."""
        return self.root.name

    @property
    def attempts(self) -> int:
        """How often it was submitted, or started again."""
        return len([each for each in (self.root / "attempts").iterdir() if each.stem.isdecimal()])

    @property
    def state(self) -> dict[str, Any]:
        """What its newest attempt wrote last: `status`, `step`, its worker's `pid` and more."""
        written = document_of(self.root / "attempts" / f"{self.attempts}.json")
        return written | {"pid": (written["worker"] or written["by"])["pid"]}

    @property
    def jobs(self) -> int:
        """How many jobs it was submitted as; one may have started more than once."""
        made = (document_of(self.root / "attempts" / f"{n + 1}.json") for n in range(self.attempts))
        return len({attempt["batch"] for attempt in made})

    @property
    def outcome(self) -> str | None:
        """What its newest attempt ended with; None where it goes on."""
        end = self.root / "attempts" / f"{self.attempts}.end.json"
        status = str((document_of(end) if end.exists() else self.state)["status"])
        return None if status in ("queued", "running") else status

    @property
    def checkpoints(self) -> list[int]:
        """Steps of its complete checkpoints."""
        whole = self.root.glob("checkpoints/*/checkpoint-*/isosweep-files.json")
        return sorted(int(path.parent.name.rpartition("-")[2]) for path in whole)

    @property
    def trained(self) -> list[int]:
        """The steps that all its attempts logged, one after the other."""
        return [int(line["step"]) for line in _lines(self.root / "metrics")]

    @property
    def records(self) -> dict[int, dict[str, Any]]:
        """Its held-out evaluations by step, without their times; attempts repeat them exactly."""
        by_step: dict[int, dict[str, Any]] = {}
        for line in _lines(self.root / "records"):
            if line["kind"] == "record":
                spent = line["compute"].items()
                line["compute"] = {k: v for k, v in spent if not k.endswith("_seconds")}
                kept = {k: v for k, v in line.items() if k not in _VARIES}
                assert by_step.setdefault(line["step"], kept) == kept
        return by_step


# Of a record: what another attempt writes otherwise.
_VARIES = ("attempt", "unix_time", "seconds")


def _lines(log: Path) -> list[dict[str, Any]]:
    """The lines of all attempts, oldest first; a killed one may have left a torn one."""
    listed = []
    for file in sorted(log.glob("*.jsonl"), key=lambda path: int(path.stem)):
        listed += [json.loads(line) for line in file.read_text().split("\n")[:-1]]
    return listed


def runs_of(cwd: Path) -> list[Run]:
    """The runs below `cwd`, by name."""
    return [Run(path) for path in sorted((cwd / "sweeps" / "runs").glob("*"))]


def records_of(cwd: Path) -> dict[str, dict[int, dict[str, Any]]]:
    """The records of every run below `cwd`."""
    return {run.run_id: run.records for run in runs_of(cwd)}


def completions_of(cwd: Path) -> str:
    """All completions that the runs of the newest sweep below `cwd` have kept, as CSV."""
    newest = max(cwd.glob("sweeps/*/plan.json"), key=lambda path: path.stat().st_mtime)
    kept = library.open(newest.parent).completions
    assert len(kept) > 0
    return str(kept.to_csv())


def jobs_of(cwd: Path) -> list[str]:
    """What the scheduler calls the newest job of every run."""
    return [str(run.state["job_id"]) for run in runs_of(cwd)]


def document_of(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def stored_plan(cwd: Path) -> dict[str, Any]:
    """The plan of the only sweep below `cwd`."""
    (path,) = cwd.glob("sweeps/*/plan.json")
    return document_of(path)


def run_ids(cwd: Path, *overrides: str) -> set[str]:
    """Digests of the runs that a command would train; its plan is not kept."""
    shown = in_process(("mode=plan", "sweep=ids", "sweeps_dir=planned", *overrides), cwd)
    assert shown.returncode == 0, shown.stderr
    path = cwd / "planned" / "ids" / "plan.json"
    found = {str(run["run_id"]).rpartition("-")[2] for run in document_of(path)["runs"]}
    path.unlink()
    return found


def status_of(cwd: Path, *overrides: str) -> dict[str, Any]:
    """What `mode=status` says of the newest sweep, for programs."""
    done = isosweep("mode=status", "format=json", "runs=[seed:0]", *overrides, cwd=cwd, check=False)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def start(cwd: Path, *overrides: str, name: str = "") -> Command:
    """A command that goes on beside the test; `name` tells those of one directory apart."""
    return Command(*overrides, cwd=cwd, output=cwd.parent / f"{cwd.name}-{name}")


def wait_until_training(cwd: Path, steps: int = 4) -> Run:
    """The run that has trained so many steps first."""
    begun: list[Run] = []

    def so() -> bool:
        begun[:] = [run for run in runs_of(cwd) if len(run.trained) >= steps]
        return bool(begun)

    wait_for(so)
    return begun[0]
