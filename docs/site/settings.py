"""The page of all settings, made from the dataclasses that validate them."""

import ast
import inspect
import json
import textwrap
from dataclasses import MISSING, fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from isosweep.config.sweep import SweepConfig
from isosweep.files import JsonObject
from isosweep.schemas import definitions

_HEAD = """\
# Settings

Every setting of the command line, `group.name=value`, as `isosweep/config/` declares and checks it.
Where there is no default, the chosen file of `conf/` has the value: `--cfg job` prints all of them
as a command composes them. Bad values are refused before anything is launched.
"""
# What no command line has: it follows from others.
_INTERNAL = ("launcher_given",)
_RENAMED = {"from_sweep": "from"}


def settings_page() -> str:
    """Markdown: a table for each group, those of the top first."""
    schemas = definitions(SweepConfig)
    return "\n".join([_HEAD, *_sections(SweepConfig, "", schemas)])


def _sections(kind: Any, group: str, schemas: dict[str, JsonObject]) -> list[str]:
    documented, properties = _documented(kind), schemas[kind.__name__]["properties"]
    inner: list[tuple[str, Any]] = []
    rows: list[str] = []
    for item in fields(kind):
        name = ".".join(filter(None, (group, _RENAMED.get(item.name, item.name))))
        below = _group_of(item.type)
        if below is not None:
            inner.append((name, below))
        elif item.name not in _INTERNAL:
            about = properties[item.name]
            cells = (f"`{name}`", _type(about), _default(item), documented.get(item.name, ""))
            rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    title = f"## {group}" if group else "## At the top"
    words = "" if not group else " ".join(inspect.getdoc(kind).split()) + "\n"
    table = ["| setting | type | default | meaning |", "|---|---|---|---|", *rows, ""]
    lines = [title, "", words, *table] if rows else [title, "", words]
    return lines + [line for name, of in inner for line in _sections(of, name, schemas)]


def _documented(kind: type) -> dict[str, str]:
    """The line under each field."""
    found = {}
    for owner in reversed(kind.__mro__[:-1]):
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
        for field, text in zip(body.body, body.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                found[field.target.id] = " ".join(ast.literal_eval(text.value).split())
    return found


def _group_of(declared: Any) -> Any:
    """The group of settings that a field holds, if it is one."""
    if get_origin(declared) is Annotated:
        return _group_of(get_args(declared)[0])
    if get_origin(declared) in (Union, UnionType):
        found = [_group_of(option) for option in get_args(declared)]
        return next((each for each in found if each is not None), None)
    return declared if is_dataclass(declared) else None


def _type(about: JsonObject) -> str:
    """What a value has to be, in a few words."""
    if "enum" in about:
        return ", ".join(f"`{value}`" for value in about["enum"])
    if "anyOf" in about:
        return " or ".join(dict.fromkeys(_type(option) for option in about["anyOf"]))
    kind = about.get("type", "")
    if kind == "array":
        return f"list of {_type(about['items'])}" if "items" in about else "list"
    names = {"integer": "whole number", "string": "text", "boolean": "`true`, `false`"}
    names |= {"object": "mapping", "null": "`null`"}
    least = about.get("minimum", about.get("ge"))
    most = about.get("maximum", about.get("le"))
    above = about.get("exclusiveMinimum", about.get("gt"))
    bounds = [f"above {above:g}"] if above is not None else []
    bounds += [f"at least {least:g}"] if least is not None else []
    bounds += [f"at most {most:g}"] if most is not None else []
    return ", ".join([names.get(kind, kind), *bounds])


def _default(item: Any) -> str:
    if item.default is not MISSING:
        return f"`{json.dumps(item.default)}`"
    if item.default_factory is not MISSING:
        return f"`{json.dumps(item.default_factory())}`"
    return ""
