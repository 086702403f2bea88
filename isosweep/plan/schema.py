"""The JSON Schema of plan.json, from its dataclasses; `python -m isosweep.plan.schema` accepts it.

`schema.json` is what is shipped; a test compares it with what the dataclasses say.
"""

from pathlib import Path

from isosweep.files import JsonObject, write_text
from isosweep.plan.cells import PLAN_VERSION, Plan
from isosweep.plan.document import PlanHeading
from isosweep.plan.rules import RULES
from isosweep.schemas import DIALECT, definitions, text_of

GOLDEN = Path(__file__).with_name("schema.json")
_DESCRIPTION = (
    "What an isosweep plan.json holds. n: rollouts per problem; B: problems per batch; T: update "
    "steps. Cells and rejections together are all candidates: n x B x seed x budget x axes."
)


def document_schema() -> JsonObject:
    """The JSON Schema (draft 2020-12) that every plan.json of this version satisfies."""
    defs = definitions(PlanHeading, Plan)
    heading, plan = defs.pop("PlanHeading"), defs.pop("Plan")
    defs["RuleName"] = {
        "description": "A setting that can reject a candidate.",
        "oneOf": [{"const": rule.setting, "description": rule.rejects} for rule in RULES],
    }
    return {
        "$schema": DIALECT,
        "$id": f"urn:isosweep:plan:{PLAN_VERSION}",
        "title": f"isosweep plan, version {PLAN_VERSION}",
        "description": _DESCRIPTION,
        "type": "object",
        "additionalProperties": False,
        "required": heading["required"] + plan["required"],
        "properties": heading["properties"] | plan["properties"],
        "$defs": dict(sorted(defs.items())),
    }


def golden_text() -> str:
    """What `schema.json` holds."""
    return text_of(document_schema())


if __name__ == "__main__":
    write_text(GOLDEN, golden_text())
