"""The page of all settings, from the classes that check them: `python docs/site/settings.py`."""

import re
from pathlib import Path

from isosweep.config.described import LANGUAGE_MODEL, Setting, described

_PAGE = re.compile(r"docs/(\w+)\.md")
PAGE = Path(__file__).resolve().parent.parent / "settings_reference.md"
_HEAD = f"""# Settings (reference)

Every setting that a command can name. Type a setting behind the command:

    python -m isosweep mode=plan grid.seeds=[0,1] recipe.learning_rate=2e-6

The settings that most sweeps need are in [Commands](commands.md). A default is that of the \
built-in model, followed by that of a language model (`{LANGUAGE_MODEL}`) if it differs. The \
choices of a group, such as `recipe=dapo`, are files of `conf/` that set several settings at once. \
`python -m isosweep --help` lists the choices, and `--cfg job` prints all settings of a command.
"""


def settings_page() -> str:
    """The Markdown page: a table for each group."""
    parts = [_HEAD]
    for group, meaning, settings in described():
        title = f"`{group}`" if group else "The sweep"
        meaning = _PAGE.sub(r"[\1](\1.md)", meaning)
        rows = [_row(setting) for setting in settings]
        parts.append(
            f"## {title}\n\n{meaning}\n\n| setting | type | default | meaning |\n"
            "|---|---|---|---|\n" + "\n".join(rows) + "\n"
        )
    return "\n".join(parts)


def _row(setting: Setting) -> str:
    default = _code(setting.default)
    if setting.model_default is not None:
        default += f"; language model: {_code(setting.model_default)}"
    meaning = _PAGE.sub(r"[\1](\1.md)", setting.meaning)
    cells = (f"`{setting.name}`", setting.kind, default, meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _code(text: str) -> str:
    """Text on one line, as code."""
    return f"`{_one_line(text)}`"


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    PAGE.write_text(settings_page(), encoding="utf-8")
