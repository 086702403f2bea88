"""The files of a sweep's figures, by name and format."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from os.path import relpath
from pathlib import Path
from urllib.parse import quote

# Endings of the files that `analysis.formats` names, the format first.
_FILES = {"png": ".png", "svg": ".svg", "pdf": ".pdf", "dark_png": "-dark.png"}


class Figures(Mapping[str, dict[str, Path]]):
    """Files of every figure of the report: by its name, and by png, svg, pdf or dark_png.

    A figure without files has an empty dictionary: it has nothing to show of this sweep, or
    `mode=analyse` has not written it. `plot(name)` of the sweep draws one without files.
    """

    def __init__(self, names: Sequence[str], directory: Path) -> None:
        self._files = {
            name: {
                kind: path
                for kind, ending in _FILES.items()
                if (path := directory / f"{name}{ending}").is_file()
            }
            for name in names
        }

    def __getitem__(self, name: str) -> dict[str, Path]:
        return self._files[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __repr__(self) -> str:
        written = sum(map(bool, self._files.values()))
        return f"<{len(self)} figures, {written} with files: {', '.join(self)}>"

    def _repr_html_(self) -> str:
        rows = [
            f"<tr><td>{escape(name)}</td><td>{_links(files) or 'no files'}</td></tr>"
            for name, files in self._files.items()
        ]
        return f"<table><tr><th>figure</th><th>files</th></tr>{''.join(rows)}</table>"


def _links(files: Mapping[str, Path]) -> str:
    links = (
        # Notebooks open what lies at or below their own directory.
        f'<a href="{escape(quote(relpath(path)))}">{kind}</a>'
        for kind, path in files.items()
    )
    return " ".join(links)
