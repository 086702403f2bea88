"""The JSON Schema of fits.json, from its dataclasses; `-m isosweep.analysis.schema` writes it.

`fits.schema.json` is what is shipped; a test compares it with what the dataclasses say.
"""

import json
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from isosweep.analysis.document import FITS_VERSION, FitsDocument
from isosweep.files import JsonObject, write_text

GOLDEN = Path(__file__).with_name("fits.schema.json")
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


def fits_schema() -> JsonObject:
    """The JSON Schema (draft 2020-12) that every fits.json satisfies."""
    # Of a tuple, since a dataclass alone would not take `config` over.
    adapter: TypeAdapter[Any] = TypeAdapter(tuple[FitsDocument], config=_CONFIG)
    defs = adapter.json_schema(mode="serialization", schema_generator=_Untitled)["$defs"]
    document = defs.pop("FitsDocument")
    schema: JsonObject = _one_line(
        {
            "$schema": GenerateJsonSchema.schema_dialect,
            "$id": f"urn:isosweep:fits:{FITS_VERSION}",
            **document,
            "title": f"isosweep fits, version {FITS_VERSION}",
            "$defs": dict(sorted(defs.items())),
        }
    )
    return schema


def _one_line(part: Any) -> Any:
    """A schema whose descriptions are one line each."""
    if isinstance(part, list):
        return [_one_line(item) for item in part]
    if not isinstance(part, dict):
        return part
    return {
        name: " ".join(value.split())
        if name == "description" and isinstance(value, str)
        else _one_line(value)
        for name, value in part.items()
    }


def golden_text() -> str:
    """What `fits.schema.json` holds."""
    return json.dumps(fits_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    write_text(GOLDEN, golden_text())
