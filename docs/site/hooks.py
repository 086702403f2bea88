"""What of the site is made while it is built: the first page, and the project's files."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]

# Files of the project that are pages of the site, too.
_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
_NAMED = re.compile(r"\[(?:docs/)?(\w+)\.md\]\(")
_LINK = re.compile(r"(!?\[[^\]]*\])\(([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that no file of `docs/` is."""
    for source, page in _PAGES.items():
        text = _moved((ROOT / source).read_text())
        # It names every setting and would be found before the page that explains it.
        front = "---\nsearch:\n  exclude: true\n---\n\n" if page == "changelog.md" else ""
        files.append(File.generated(config, page, content=front + text))
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        path = f"notebooks/{notebook.name}"
        files.append(File.generated(config, path, abs_src_path=str(notebook)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links out of `docs/` lead to what the site has of them; pages are called without endings."""
    return _NAMED.sub(r"[\1](", markdown.replace("](../notebooks/", "](notebooks/"))


def _moved(text: str) -> str:
    """The text of a file at top level, as it reads from `docs/`; other files are named only."""

    def link(match: re.Match[str]) -> str:
        label, target, anchor = match[1], match[2], match[3] or ""
        if target.startswith(("http://", "https://")):
            return match[0]
        if target in _PAGES:
            return f"{label}({_PAGES[target]}{anchor})"
        if target.startswith("docs/"):
            return f"{label}({target.removeprefix('docs/')}{anchor})"
        return label.strip("[]")

    return _LINK.sub(link, text)
