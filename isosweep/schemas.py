"""JSON Schemas (draft 2020-12) from dataclasses: what our own documents promise their readers."""

import json
from typing import Any

from pydantic import ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from isosweep.files import JsonObject

DIALECT = GenerateJsonSchema.schema_dialect
# Every property is written, and no other.
_WRITTEN = ConfigDict(
    extra="forbid",
    use_attribute_docstrings=True,
    json_schema_serialization_defaults_required=True,
)


class _Untitled(GenerateJsonSchema):
    """Without titles: they would repeat the names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never."""
        return False


def definitions(*documents: type[Any]) -> dict[str, JsonObject]:
    """The schemas of these dataclasses, and of all that they contain, by name.

    A field's description is the string under it.
    """
    # Of a tuple, since a dataclass alone would not take `config` over.
    adapter: TypeAdapter[Any] = TypeAdapter(tuple[documents], config=_WRITTEN)  # type: ignore[valid-type]
    schema = adapter.json_schema(mode="serialization", schema_generator=_Untitled)
    own: dict[str, JsonObject] = _one_line(schema["$defs"])
    return own


def text_of(schema: JsonObject) -> str:
    """The schema as its file holds it."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


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
