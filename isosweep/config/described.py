"""Every setting in words: its type, default, meaning, an example. What `--help SETTING` prints."""

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from isosweep.config.base import Settings, group_in, meanings, typed_name
from isosweep.config.compose import config_of
from isosweep.config.overrides import typed
from isosweep.config.refusals import choices_of, config_directory, nearest_setting
from isosweep.config.sweep import SweepConfig
from isosweep.errors import SettingError
from isosweep.files import JsonObject

# A language model, whose defaults stand beside those of the built-in one.
LANGUAGE_MODEL = "model=qwen-1.5b"
# Filled in by the command line, and not to be typed.
_FILLED_IN = frozenset(
    {
        *("given", "variants", "loss_sources", "selection_sha256", "data_sha256"),
        *("model.directory", "model.converted", "hardware.calibrated_from"),
    }
)
_BOUNDS = {
    **{"exclusiveMinimum": ">", "gt": ">", "minimum": ">=", "ge": ">="},
    "exclusiveMaximum": "<",
    "maximum": "<=",
}


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

    @property
    def example(self) -> str:
        """The setting as a command may have it."""
        words = re.findall(r"`(\w+)`", self.kind)
        sample = "8" if "number" in self.kind else (words or ["..."])[0]
        plain = self.default not in ("null", "to be given", "[]", "{}")
        return f"{self.name}={self.default if plain else sample}"


def described() -> Iterator[tuple[str, str, list[Setting]]]:
    """Each group of settings, "" at the top, its meaning and settings; those in it after it."""
    composed = (config_of([]), config_of([LANGUAGE_MODEL]))
    yield from _groups(SweepConfig, "", composed, SweepConfig.model_json_schema(), set())


def help_of(word: str) -> str:
    """Return what `--help WORD` prints: a setting, or the settings and choices of a group.

    Raises SettingError where there is none of that name.
    """
    groups = {name: (meaning, settings) for name, meaning, settings in described()}
    every = {each.name: each for _, settings in groups.values() for each in settings}
    word = word.partition("=")[0].strip("+~")
    if word in groups and word:
        meaning, settings = groups[word]
        choices = ", ".join(choices_of(config_directory(), word))
        lines = [f"{word}: {meaning}", *([f"choices: {word}=... {choices}"] if choices else [])]
        return "\n".join([*map(_wrapped, lines), "", *map(_line, settings)])
    found = [each for name, each in every.items() if word in (name, name.rpartition(".")[2])]
    found = found or [every[n] for n in [nearest_setting(word)] if n in every]
    if not found:
        rule = "is the name of no setting and no group; --help lists modes and groups"
        raise SettingError("--help", word, rule)
    return "\n\n".join(map(_entry, found))


def _entry(setting: Setting) -> str:
    default = setting.default
    if setting.model_default is not None:
        default += f"; with {LANGUAGE_MODEL}: {setting.model_default}"
    kind = setting.kind.replace("`", "")
    lines = (setting.meaning, f"type: {kind}", f"default: {default}")
    example = f"example: python -m isosweep mode=plan {setting.example}"
    return "\n".join([setting.name, *(_wrapped(f"  {line}") for line in (*lines, example))])


def _line(setting: Setting) -> str:
    first = setting.meaning.partition(". ")[0]
    return _wrapped(f"  {setting.name}={setting.default}  {first}")


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 100, subsequent_indent="    ", break_long_words=False)


def _groups(
    kind: type[Settings],
    name: str,
    values: tuple[Any, ...],
    schema: JsonObject,
    shown_kinds: set[type[Settings]],
) -> Iterator[tuple[str, str, list[Setting]]]:
    # Tasks of mixtures and of evaluation sets have the settings of `task`.
    shown_kinds.add(kind)
    known = schema if kind is SweepConfig else schema["$defs"][kind.__name__]
    words = meanings(kind)
    settings, inner = [], []
    for field, item in kind.model_fields.items():
        path = f"{name}.{typed_name(field)}".lstrip(".")
        if not _FILLED_IN.isdisjoint((field, path)):
            continue
        own = [getattr(value, field) for value in values if hasattr(value, field)]
        group = group_in(item)
        several = "dict[" in str(item.annotation)
        if group is not None and group not in shown_kinds:
            inner.append((group, f"{path}.NAME" if several else path, () if several else own))
            if not several:
                continue
        if not own and not item.is_required():
            own = [item.get_default(call_default_factory=True)]
        shown = ["{...}" if isinstance(each, Settings) else typed(each) for each in own] or [
            "to be given"
        ]
        settings.append(
            Setting(
                name=path,
                kind=_kind(known["properties"][field], schema["$defs"]),
                default=shown[0],
                model_default=shown[-1] if shown[-1] != shown[0] else None,
                meaning=words[field],
            )
        )
    yield name, " ".join((inspect.getdoc(kind) or "").split()), settings
    for group, path, within in inner:
        yield from _groups(group, path, tuple(within), schema, shown_kinds)


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
        case "integer":
            return f"whole number {bounds}".strip()
        case "number":
            return f"number {bounds}".strip()
    names = {"object": "names with values", "string": "text", "null": "`null`"}
    return {**names, "boolean": "`true`, `false`"}.get(part.get("type", ""), "see its meaning")
