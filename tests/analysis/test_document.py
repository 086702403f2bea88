"""The documents of an analysis, and the schemas generated from what they are written from."""

import difflib
import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from isosweep.analysis.schema import GOLDEN, golden_text
from tests.analysis.conftest import Reported

SCHEMAS = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in GOLDEN.items()}
VALIDATOR = jsonschema.Draft202012Validator(SCHEMAS["fits"])


@pytest.mark.parametrize("name", GOLDEN)
def test_the_shipped_schema_is_what_the_dataclasses_say(name: str) -> None:
    shipped, now = GOLDEN[name].read_text(encoding="utf-8"), golden_text(name)
    lines = difflib.unified_diff(
        shipped.splitlines(), now.splitlines(), "shipped", "generated", lineterm=""
    )
    accept = "if this is meant (and the version of the format says so): python -m"
    assert shipped == now, "\n".join([*lines, f"{accept} isosweep.analysis.schema"])


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_every_object_is_closed_and_every_value_is_described(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    for name, part in {**schema["$defs"], "document": schema}.items():
        assert part["description"], name
        if part["type"] == "object":
            assert part["additionalProperties"] is False, name
            assert set(part["required"]) == set(part["properties"]), name
            for key, value in part["properties"].items():
                assert value["description"], f"{name}.{key}"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda fits: fits.pop("verdict"),
        lambda fits: fits.update(version=1),
        lambda fits: fits.update(extra=1),
        lambda fits: fits["settings"].update(confidence=0.4),
        lambda fits: fits["frontier"]["budgets"][0].update(choices=[]),
        lambda fits: fits.update(verdict="certain"),
        lambda fits: fits["frontier"]["budgets"][0]["best"].update(interval=[0.1]),
        lambda fits: fits["saturation"]["optima"][0].update(best=2.5),
    ],
)
def test_a_spoilt_fits_document_does_not_validate(
    spoil: Callable[[dict[str, Any]], object], reported: Reported
) -> None:
    document = json.loads(reported.paths.fits.read_text())
    assert VALIDATOR.is_valid(document)
    spoil(document)
    assert not VALIDATOR.is_valid(document)
