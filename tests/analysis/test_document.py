"""`fits.json` and the schema that is generated from what it is written from."""

import difflib
import json
import os
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from isosweep.analysis.document import SCHEMA, fits_schema, generate_schema
from tests.analysis.conftest import Reported

VALIDATOR = jsonschema.Draft202012Validator(fits_schema())


def test_the_schema_is_that_of_the_dataclasses() -> None:
    generated = generate_schema()
    if os.environ.get("ISOSWEEP_ACCEPT_GOLDEN"):
        SCHEMA.write_text(generated, encoding="utf-8")
    stored = SCHEMA.read_text(encoding="utf-8")
    diff = "\n".join(difflib.unified_diff(stored.splitlines(), generated.splitlines(), lineterm=""))
    accept = f"ISOSWEEP_ACCEPT_GOLDEN=1 python -m pytest {os.environ['PYTEST_CURRENT_TEST']}"
    assert not diff, f"{diff}\naccept it with {accept.removesuffix(' (call)')}"


def test_the_schema_is_one_and_every_object_is_closed_and_described() -> None:
    schema = fits_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for name, described in {**schema["$defs"], "document": schema}.items():
        if described["type"] == "object":
            assert described["additionalProperties"] is False, name
            assert set(described["required"]) == set(described["properties"]), name
        assert described["description"], name


@pytest.mark.parametrize(
    "spoil",
    [
        lambda fits: fits.pop("verdict"),
        lambda fits: fits.update(version=1),
        lambda fits: fits.update(extra=1),
        lambda fits: fits["versions"].pop("isosweep"),
        lambda fits: fits["settings"].update(confidence=0.4),
        lambda fits: fits["frontier"]["budgets"][0].update(choices=[]),
        lambda fits: fits["fits"][0].update(status=""),
        lambda fits: fits.update(verdict="certain"),
        lambda fits: fits["fits"][0].pop("share_risen"),
        lambda fits: fits["frontier"]["budgets"][0]["best"].update(interval=[0.1]),
        lambda fits: fits["saturation"]["optima"][0].update(best=2.5),
        lambda fits: fits["saturation"]["laws"]["probabilities"].pop("power"),
        lambda fits: fits["problem_changes"][0].update(better=1.2),
    ],
)
def test_a_spoilt_fits_document_does_not_validate(
    spoil: Callable[[dict[str, Any]], object], reported: Reported
) -> None:
    document = json.loads(reported.paths.fits.read_text())
    assert VALIDATOR.is_valid(document)
    spoil(document)
    assert not VALIDATOR.is_valid(document)
