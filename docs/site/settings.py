"""The page of all settings, from the classes that check them: `python docs/site/settings.py`."""

import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo

from isosweep.config.base import Settings, group_in, meanings
from isosweep.config.compose import config_of
from isosweep.config.sweep import SweepConfig
from isosweep.files import JsonObject

# A language model, whose defaults stand beside those of the built-in one.
_LANGUAGE_MODEL = "model=qwen-1.5b"
# Filled in by the command line, and not to be typed.
_OWN = frozenset(
    {
        *("given", "composed", "loss_sources", "selection_sha256"),
        *("model.directory", "model.converted", "hardware.calibrated_from"),
        *("task.math.data_sha256", "task.code.data_sha256"),
    }
)
_TYPED = {"importing": "import"}
_BOUNDS = {
    "exclusiveMinimum": ">",
    "gt": ">",
    "minimum": ">=",
    "ge": ">=",
    "exclusiveMaximum": "<",
    "maximum": "<=",
}
_NOT_HERE = object()
_PAGE = re.compile(r"docs/(\w+)\.md")
PAGE = Path(__file__).resolve().parent.parent / "settings_reference.md"
_HEAD = f"""# Settings (reference)

Every setting that a command can name. Type a setting behind the command:

    python -m isosweep mode=plan grid.seeds=[0,1] recipe.learning_rate=2e-6

The settings that most sweeps need are in [Commands](commands.md). A default is that of the \
built-in model, followed by that of a language model (`{_LANGUAGE_MODEL}`) if it differs. The \
choices of a group, such as `recipe=dapo`, are files of `conf/` that set several settings at once. \
`python -m isosweep --help` lists the choices, and `--cfg job` prints all settings of a command.
"""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting: its dotted name, what it may be, its default as typed, and its meaning.

    `model_default`: that of a language model; None where it is the same.
    """

    name: str
    kind: str
    default: str
    model_default: str | None
    meaning: str


def settings_page() -> str:
    """The Markdown page: a table for each group."""
    parts = [_HEAD]
    for group, meaning, settings in _all():
        title = f"`{group}`" if group else "The sweep"
        meaning = _PAGE.sub(r"[\1](\1.md)", meaning)
        rows = [_row(setting) for setting in settings]
        parts.append(
            f"## {title}\n\n{meaning}\n\n| setting | type | default | meaning |\n"
            "|---|---|---|---|\n" + "\n".join(rows) + "\n"
        )
    return "\n".join(parts)


def _all() -> list[tuple[str, str, list[Setting]]]:
    """Each group with its meaning and settings, those inside it after it."""
    schema = SweepConfig.model_json_schema()
    composed = (config_of([]), config_of([_LANGUAGE_MODEL]))
    return list(_groups(SweepConfig, "", composed, schema))


def _groups(
    kind: type[Settings], name: str, values: tuple[Any, ...], schema: JsonObject
) -> Iterator[tuple[str, str, list[Setting]]]:
    known = schema if kind is SweepConfig else schema["$defs"][kind.__name__]
    words = meanings(kind)
    settings, inner = [], []
    for field, item in kind.model_fields.items():
        path = f"{name}.{field}".lstrip(".")
        if not _OWN.isdisjoint((field, path)):
            continue
        path = _TYPED.get(path, path)
        own = tuple(getattr(value, field, _NOT_HERE) for value in values)
        group = group_in(item)
        several = any(
            get_origin(each) is dict for each in (item.annotation, *get_args(item.annotation))
        )
        if group is not None:
            within = (None, None) if several else own
            inner.append((group, f"{path}.NAME" if several else path, within))
            if not several:
                continue
        part = known["properties"][field]
        shown = [_typed(value) for value in own if value is not _NOT_HERE] or [_default(item)]
        settings.append(
            Setting(
                name=path,
                kind=_kind(part, schema["$defs"]),
                default=shown[0],
                model_default=shown[-1] if shown[-1] != shown[0] else None,
                meaning=words.get(field, ""),
            )
        )
    yield name, _one_line(inspect.getdoc(kind) or ""), settings
    for group, path, own in inner:
        yield from _groups(group, path, own, schema)


def _default(item: FieldInfo) -> str:
    """What is declared on a field of a group that neither config has."""
    return (
        "to be given" if item.is_required() else _typed(item.get_default(call_default_factory=True))
    )


def _kind(part: JsonObject, known: JsonObject) -> str:
    """What a value may be, in words: `a whole number > 0, or null`."""
    if "anyOf" in part:
        return ", or ".join(dict.fromkeys(_kind(each, known) for each in part["anyOf"]))
    if "$ref" in part:
        return _kind(known[part["$ref"].rpartition("/")[2]], known)
    if "enum" in part:
        return ", ".join(f"`{choice}`" for choice in part["enum"])
    if "const" in part:
        return f"`{part['const']}`"
    bounds = " and ".join(f"{sign} {part[key]:g}" for key, sign in _BOUNDS.items() if key in part)
    match part.get("type"):
        case "array":
            return f"list of {_kind(part['items'], known)}" if part.get("items") else "list"
        case "object":
            return "names with values"
        case "integer":
            return f"whole number {bounds}".strip()
        case "number":
            return f"number {bounds}".strip()
        case "string":
            return "text"
        case "boolean":
            return "`true`, `false`"
        case "null":
            return "`null`"
    return "see its meaning"


def _typed(value: Any) -> str:
    """A value as it is typed on the command line."""
    if isinstance(value, float):
        return f"{value:g}".replace("e+", "e")
    if isinstance(value, list | tuple):
        return f"[{','.join(_typed(each) for each in value)}]"
    if isinstance(value, Settings):
        return "{...}"
    if isinstance(value, str):
        return value or '""'
    return json.dumps(value, default=str)


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
