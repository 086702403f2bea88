"""What is handed on: citation, containers, extras, and the pages of the documentation."""

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from isosweep import __version__
from isosweep.modes.usage import MODES
from isosweep.plan.rules import RULES

ROOT = Path(__file__).resolve().parent.parent


def _project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def test_the_citation_is_of_this_version_and_licence() -> None:
    cited: Any = OmegaConf.load(ROOT / "CITATION.cff")
    # What version 1.2.0 of the Citation File Format requires.
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert cited["cff-version"] == "1.2.0"
    assert cited["title"] == _project()["name"]
    assert cited["version"] == __version__
    assert cited["license"] == _project()["license"]


def test_containers_install_torch_first_and_the_same_extras() -> None:
    image = (ROOT / "containers" / "Dockerfile").read_text()
    recipe = (ROOT / "containers" / "isosweep.def").read_text()
    for text in (image, recipe):
        installed = re.findall(r"pip install --no-cache-dir -c constraints.txt (\S+)", text)
        assert installed == ["torch", "'.[train,vllm]'"]
    assert re.findall(r"^FROM (\S+)", image, re.M) == re.findall(r"^From: (\S+)", recipe, re.M)


def test_every_extra_that_is_named_exists() -> None:
    extras = _project()["optional-dependencies"].keys()
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "Makefile"]
    files += [*(ROOT / "containers").iterdir(), *(ROOT / "isosweep").rglob("*.py")]
    named = {
        extra
        for path in files
        for listed in re.findall(r"(?:isosweep|'\.)\[([a-z,]+)\]", path.read_text())
        for extra in listed.split(",")
    }
    assert {"train", "vllm", "dev", "docs"} <= named <= extras


def test_every_page_is_in_the_contents_of_the_site() -> None:
    site: Any = OmegaConf.load(ROOT / "mkdocs.yml")
    listed = re.findall(r"\w+\.md", str(site["nav"]))
    assert len(listed) == len(set(listed))
    made = {"index.md", "contributing.md", "changelog.md"}
    assert set(listed) == made | {path.name for path in (ROOT / "docs").glob("*.md")}


def test_every_mode_is_told_in_the_docs() -> None:
    pages = "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    pages += (ROOT / "README.md").read_text()
    assert [mode for mode in MODES if f"mode={mode}" not in pages] == []


def test_the_page_of_settings_says_type_default_and_meaning_of_each() -> None:
    page = runpy.run_path(str(ROOT / "docs" / "site" / "settings.py"))["settings_page"]()
    written = (ROOT / "docs" / "settings_reference.md").read_text(encoding="utf-8")
    assert written == page, "write it anew: python docs/site/settings.py"
    rows = [re.split(r"(?<!\\) \| ", line) for line in page.splitlines() if line.startswith("| `")]
    assert [row for row in rows if len(row) != 4 or not all(cell.strip("| ") for cell in row)] == []
    said = {row[0].strip("|` "): row[2] for row in rows}
    # As `python -m isosweep` composes it, and with a language model.
    assert said["grid.seeds"].startswith("`[0,1,2]`")
    assert said["task.kind"] == "`sort`; language model: `math`"
    typed = {"sweep", "import.columns", "task.custom.directory", "launcher.slurm.partition"}
    assert typed | {"task.code.dataset"} <= said.keys()


def test_the_page_on_planning_has_every_rule() -> None:
    page = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")
    assert [name for name in RULES if f"`{name}`" not in page] == []


def test_every_link_leads_to_a_page_of_the_repository() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    links = [
        (page, link)
        for page in pages
        for link in re.findall(r"\]\(([^)\s#]+)[^)\s]*\)", page.read_text(encoding="utf-8"))
        if "://" not in link
    ]
    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []
