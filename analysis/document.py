"""`fits.json`: what the analysis made of a sweep, for programs, and the schema that it follows."""

import json
import math
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from isosweep import __version__
from isosweep.analysis.bounds import Confidence, Positive, Sentence, Share
from isosweep.analysis.curves import Metric, SweepData
from isosweep.analysis.statistics.asymptotes import Asymptote
from isosweep.analysis.statistics.findings import Findings
from isosweep.analysis.statistics.fits import Fit
from isosweep.analysis.statistics.frontier import Frontier
from isosweep.analysis.statistics.mechanism import ProblemChange
from isosweep.analysis.statistics.saturation import Saturation, Verdict
from isosweep.analysis.statistics.validation import Validation
from isosweep.analysis.statistics.views import View
from isosweep.compute import BudgetUnit
from isosweep.config.analysis import AnalysisConfig
from isosweep.files import JsonObject

SCHEMA = Path(__file__).parent / "fits.schema.json"


@dataclass(frozen=True, kw_only=True)
class Versions:
    """Of isosweep, Python and the packages that computed the document."""

    isosweep: str
    python: str
    numpy: str
    scipy: str
    plotly: str
    matplotlib: str

    @classmethod
    def here(cls) -> "Versions":
        """Of what is installed."""
        packages = {name: version(name) for name in ("numpy", "scipy", "plotly", "matplotlib")}
        return cls(isosweep=__version__, python=platform.python_version(), **packages)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Of `analysis.*`, those that change a number: see `AnalysisConfig`."""

    name: str
    confidence: Confidence
    margin: Positive
    metric: Metric
    method: Literal["isosweep", "playbook"]
    extrapolate: bool
    compute_axis: BudgetUnit | None
    difficulty: tuple[Share, Share] | None

    @classmethod
    def of(cls, config: AnalysisConfig) -> "Settings":
        return cls(**{field.name: getattr(config, field.name) for field in fields(cls)})


@dataclass(frozen=True, kw_only=True)
class FitsDocument:
    """What an isosweep fits.json holds.

    n: rollouts per problem; B: problems per batch; T: update steps; n*: the best n. Rewards are
    held-out, from 0 to 1; compute is in `budget_unit`. Null: not known or not identified.
    `plan_id`: hash of the plan that was analysed; null where the plan has none. `fits`: one a run,
    in the plan's order; `asymptotes`: one per (n, B), ascending; `problem_changes`: against the
    base model at the largest budget, one per n at its best B; `views`: the answer by other metrics
    and on problems of other difficulty; `validation`: forecasts of the last budget against its
    records, null with one budget; `problems`: lines and files that could not be used.
    """

    # 2: the reward surface, laws of n*(C), asymptotes over seeds.
    version: Literal[2] = 2
    plan_id: str | None
    budget_unit: BudgetUnit
    verdict: Verdict
    reason: Sentence
    saturation: Saturation
    settings: Settings
    versions: Versions
    frontier: Frontier
    fits: tuple[Fit, ...]
    asymptotes: tuple[Asymptote, ...]
    problem_changes: tuple[ProblemChange, ...]
    views: tuple[View, ...]
    validation: Validation | None
    problems: tuple[str, ...]


def fits_document(
    data: SweepData, config: AnalysisConfig, findings: Findings, versions: Versions
) -> JsonObject:
    """What `fits.json` holds, as JSON has it."""
    document = FitsDocument(
        plan_id=data.plan_document.get("plan_id"),
        budget_unit=data.plan.budget_unit,
        verdict=findings.saturation.verdict,
        reason=findings.saturation.reason,
        saturation=findings.saturation,
        settings=Settings.of(config),
        versions=versions,
        frontier=findings.frontier,
        fits=findings.fits,
        asymptotes=findings.asymptotes,
        problem_changes=findings.changes,
        views=findings.views,
        validation=findings.validation,
        problems=data.problems,
    )
    written: JsonObject = _to_json(asdict(document))
    return written


def _to_json(value: Any) -> Any:
    """`value` with None for numbers that JSON cannot hold, and enums by their values."""
    match value:
        case Mapping():
            return {key: _to_json(item) for key, item in value.items()}
        case list() | tuple():
            return [_to_json(item) for item in value]
        case Enum():
            return value.value
        case float() if not math.isfinite(value):
            return None
        case _:
            return value


def fits_schema() -> JsonObject:
    """The JSON Schema (draft 2020-12) that every fits.json follows."""
    schema: JsonObject = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return schema


def generate_schema() -> str:
    """The text of the schema's file, from the dataclasses that the document is written from."""
    from pydantic import TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema

    class Strict(GenerateJsonSchema):
        """Every field is there, and nothing else."""

        def field_is_required(self, *field: Any, **kinds: Any) -> bool:
            return True

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

        def dataclass_schema(self, schema: Any) -> JsonObject:
            return super().dataclass_schema(schema) | {"additionalProperties": False}

    generated = TypeAdapter(FitsDocument).json_schema(schema_generator=Strict, mode="serialization")
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:isosweep:fits:2",
        "title": "isosweep fits, version 2",
    }
    return json.dumps(head | {k: v for k, v in generated.items() if k != "title"}, indent=2) + "\n"
