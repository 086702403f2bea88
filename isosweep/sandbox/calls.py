"""Tests here, the program under test in another process: calls go over a link, as plain data.

A program that is called this way never meets the code that judges it: it can patch what it likes,
or end, and what arrives here is at most a wrong value. Numbers, text, bytes, tuples, lists, sets
and dictionaries arrive as what they are, an iterator as one over all that it yields, and anything
else (a function, an object) as a `Remote`, which can be called and has attributes. Arguments are
copies: what a function changes in them is not seen.
"""

import builtins
import json
import symtable
from collections import deque
from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from decimal import Decimal
from fractions import Fraction
from multiprocessing.connection import Connection
from typing import Any

# The exit code of tests that are passed: with 0 they may exit by themselves.
PASSED = 99
# Bytes of one call or result.
_LONGEST = 64 << 20
# What goes over the link beside JSON's own values: the name of its kind there, its types, what it
# is taken apart to (a text, or parts of any kind), and what makes it of that again.
_KINDS: dict[str, tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]] = {
    # No limit on digits, as decimal numbers have it.
    "int": (int, hex, lambda text: int(text, 16)),
    "complex": (complex, str, complex),
    "fraction": (Fraction, str, Fraction),
    "decimal": (Decimal, str, Decimal),
    "bytes": ((bytes, bytearray), lambda value: value.hex(), bytes.fromhex),
    "dict": (dict, dict.items, dict),
    "list": ((list, KeysView, ValuesView, ItemsView), iter, list),
    "tuple": (tuple, iter, tuple),
    "set": (set, iter, set),
    "frozenset": (frozenset, iter, frozenset),
    "deque": (deque, iter, deque),
    "iterator": ((Iterator, range), iter, iter),
}


class Remote:
    """A function or an object of the program, in the program's process."""

    def __init__(self, number: int, request: Callable[..., Any]) -> None:
        self._number, self._request = number, request

    def __call__(self, *values: Any, **named: Any) -> Any:
        """What the program's function returns."""
        given = (pack(values, _number), pack(named, _number))
        return self._request("call", self._number, *given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._request("attribute", self._number, name)


def _number(value: Any) -> int:
    if isinstance(value, Remote):
        return value._number
    raise TypeError(f"a program cannot be given {value!r}")


def pack(value: Any, keep: Callable[[Any], int]) -> Any:
    """`value` for JSON; `keep` gives the number of what is no plain data."""
    if value is None or isinstance(value, bool | float | str):
        return value
    for kind, (types, parts_of, _) in _KINDS.items():
        if isinstance(value, types):
            parts = parts_of(value)
            return [kind, parts if isinstance(parts, str) else [pack(p, keep) for p in parts]]
    return ["remote", keep(value)]


def unpack(document: Any, remote: Callable[[int], Any]) -> Any:
    """The value that `pack` was given; `remote` says what stands for a number."""
    if not isinstance(document, list):
        return document
    kind, parts = document
    if kind == "remote":
        return remote(parts)
    _, _, made_of = _KINDS[kind]
    return made_of([unpack(p, remote) for p in parts] if isinstance(parts, list) else parts)


def serve(names: dict[str, Any], link: Connection) -> None:
    """Answer calls of what the program defined, until the tests are over."""
    kept: list[Any] = []

    def keep(value: Any) -> int:
        kept.append(value)
        return len(kept) - 1

    while True:
        try:
            kind, *request = json.loads(link.recv_bytes())
        except EOFError:
            return
        try:
            match kind:
                case "name":
                    value = names[request[0]]
                case "attribute":
                    value = getattr(kept[request[0]], request[1])
                case _:
                    values, named = (unpack(part, kept.__getitem__) for part in request[1:])
                    value = kept[request[0]](*values, **named)
            reply = {"value": pack(value, keep)}
        except BaseException as error:
            reply = {"error": type(error).__name__}
        link.send_bytes(json.dumps(reply).encode())


def run_tests(source: str, link: Connection) -> None:
    """Run the tests; whatever they raise says that they are not passed."""

    def request(*parts: Any) -> Any:
        link.send_bytes(json.dumps(parts).encode())
        reply = json.loads(link.recv_bytes(_LONGEST))
        if "error" in reply:
            raise _error(reply["error"])
        return unpack(reply["value"], lambda number: Remote(number, request))

    names: dict[str, Any] = {"__name__": "tests"}
    for name in names_of_program(source):
        names[name] = request("name", name)
    exec(compile(source, "tests.py", "exec"), names)


def _error(name: Any) -> Exception:
    """A builtin error of that name, as tests may expect one."""
    kind = getattr(builtins, str(name), None)
    # It would end a loop over calls, and with it the tests, as if there were no more.
    if not isinstance(kind, type) or not issubclass(kind, Exception) or kind is StopIteration:
        kind = RuntimeError
    return kind("raised by the program")


def names_of_program(source: str) -> list[str]:
    """What the tests use and do not define: the program's. Raises SyntaxError.

    A builtin is the program's where the tests use one only and no other name: a program that
    defines `abs` has no say in what its tests compute with it.
    """
    module = symtable.symtable(source, "tests.py", "exec")
    tables = [module]
    for table in tables:
        tables += table.get_children()
    bound = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_local()}
    used = {
        symbol.get_name()
        for table in tables
        for symbol in table.get_symbols()
        if symbol.is_global() and symbol.is_referenced() and symbol.get_name() not in bound
    }
    own = {name for name in used if not hasattr(builtins, name)}
    return sorted(own or (used if len(used) == 1 else ()))
