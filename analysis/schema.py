"""The JSON Schema of fits.json, from its dataclasses; `-m isosweep.analysis.schema` writes it.

`fits.schema.json` is what is shipped; a test compares it with what the dataclasses say.
"""

from pathlib import Path

from isosweep.analysis.document import FITS_VERSION, FitsDocument
from isosweep.files import JsonObject, write_text
from isosweep.schemas import DIALECT, definitions, text_of

GOLDEN = Path(__file__).with_name("fits.schema.json")


def fits_schema() -> JsonObject:
    """The JSON Schema (draft 2020-12) that every fits.json satisfies."""
    defs = definitions(FitsDocument)
    return {
        "$schema": DIALECT,
        "$id": f"urn:isosweep:fits:{FITS_VERSION}",
        **defs.pop("FitsDocument"),
        "title": f"isosweep fits, version {FITS_VERSION}",
        "$defs": dict(sorted(defs.items())),
    }


def golden_text() -> str:
    """What `fits.schema.json` holds."""
    return text_of(fits_schema())


if __name__ == "__main__":
    write_text(GOLDEN, golden_text())
