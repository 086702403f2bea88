"""The JSON Schemas of answer, fits and comparison.json, from their dataclasses.

`fits.schema.json` and the like are what is shipped; a test compares them with what
the dataclasses say, and `python -m isosweep.analysis.schema` accepts it.
"""

from pathlib import Path

from isosweep.analysis.answer import ANSWER_VERSION, Answer
from isosweep.analysis.document import FITS_VERSION, FitsDocument
from isosweep.analysis.statistics.compare import COMPARISON_VERSION, Comparison
from isosweep.files import write_text
from isosweep.schemas import DIALECT, definitions, text_of

_VERSIONS = {
    "answer": (Answer, ANSWER_VERSION),
    "fits": (FitsDocument, FITS_VERSION),
    "comparison": (Comparison, COMPARISON_VERSION),
}
# The shipped files, by the name of the document.
GOLDEN = {name: Path(__file__).with_name(f"{name}.schema.json") for name in _VERSIONS}


def golden_text(name: str) -> str:
    """The JSON Schema (draft 2020-12) that every document of that `name` satisfies."""
    document, version = _VERSIONS[name]
    defs = definitions(document)
    return text_of(
        {
            "$schema": DIALECT,
            "$id": f"urn:isosweep:{name}:{version}",
            **defs.pop(document.__name__),
            "title": f"isosweep {name}, version {version}",
            "$defs": dict(sorted(defs.items())),
        }
    )


if __name__ == "__main__":
    for name, path in GOLDEN.items():
        write_text(path, golden_text(name))
