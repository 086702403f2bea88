"""The schema of plan.json is what its dataclasses say."""

import difflib

from isosweep.plan.schema import GOLDEN, golden_text


def test_the_shipped_schema_is_what_the_dataclasses_say() -> None:
    shipped, now = GOLDEN.read_text(encoding="utf-8"), golden_text()
    lines = difflib.unified_diff(
        shipped.splitlines(), now.splitlines(), "shipped", "generated", lineterm=""
    )
    accept = "if this is meant (and the version of the format says so): python -m"
    assert shipped == now, "\n".join([*lines, f"{accept} isosweep.plan.schema"])
