"""The JSON Schema of plan.json, from its dataclasses; `python -m isosweep.plan.schema` accepts it.

`schema.json` is what is shipped; a test compares it with what the dataclasses say.
"""

import json
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from isosweep.files import JsonObject, write_text
from isosweep.plan.cells import PLAN_VERSION, Plan
from isosweep.plan.document import PlanHeading
from isosweep.plan.rules import RULES

GOLDEN = Path(__file__).with_name("schema.json")
_DESCRIPTION = (
    "What an isosweep plan.json holds. n: rollouts per problem; B: problems per batch; T: update "
    "steps. Cells and rejections together are all candidates: n x B x seed x budget x axes."
)
# Every property is written, and no other.
_CONFIG = ConfigDict(
    extra="forbid",
    use_attribute_docstrings=True,
    json_schema_serialization_defaults_required=True,
)


class _Untitled(GenerateJsonSchema):
    """Without titles: they would repeat the names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never."""
        return False


def document_schema() -> JsonObject:
    """The JSON Schema (draft 2020-12) that every plan.json of this version satisfies."""
    # Of a tuple, since a dataclass alone would not take `config` over.
    adapter: TypeAdapter[Any] = TypeAdapter(tuple[PlanHeading, Plan], config=_CONFIG)
    defs = adapter.json_schema(mode="serialization", schema_generator=_Untitled)["$defs"]
    heading, plan = defs.pop("PlanHeading"), defs.pop("Plan")
    defs["RuleName"] = {
        "description": "A setting that can reject a candidate.",
        "oneOf": [{"const": rule.setting, "description": rule.rejects} for rule in RULES],
    }
    document: JsonObject = {
        "$schema": GenerateJsonSchema.schema_dialect,
        "$id": f"urn:isosweep:plan:{PLAN_VERSION}",
        "title": f"isosweep plan, version {PLAN_VERSION}",
        "description": _DESCRIPTION,
        "type": "object",
        "additionalProperties": False,
        "required": heading["required"] + plan["required"],
        "properties": heading["properties"] | plan["properties"],
        "$defs": dict(sorted(defs.items())),
    }
    schema: JsonObject = _unwrapped(document)
    return schema


def _unwrapped(part: Any) -> Any:
    """A schema whose descriptions are one line each."""
    if isinstance(part, list):
        return [_unwrapped(item) for item in part]
    if not isinstance(part, dict):
        return part
    return {
        name: " ".join(value.split())
        if name == "description" and isinstance(value, str)
        else _unwrapped(value)
        for name, value in part.items()
    }


def golden_text() -> str:
    """What `schema.json` holds."""
    return json.dumps(document_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    write_text(GOLDEN, golden_text())
