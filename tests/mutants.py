"""The share of mutants that quick tests notice, in the rooms that decide plans and verdicts.

    make mutants
    make mutants ARGS="--sample 100 --unchanged-since v0.1.0"

mutmut changes one number, operator, argument or condition of a function. Each mutant runs in a fork
of a process that has collected the tests: tests that reach the function, quickest first, until one
fails. The sample stays the same as long as its functions do. Limits are processor time, so that a
busy machine kills no mutant. `build/mutants.json` has every mutant with the test that noticed it.
"""

import argparse
import gc
import hashlib
import inspect
import json
import os
import resource
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import islice, zip_longest
from pathlib import Path
from statistics import fmean
from types import CodeType, FunctionType
from typing import Any

import coverage
import libcst as cst
import pytest
from mutmut.mutation.file_mutation import Mutation, create_mutations, deep_replace

ROOT = Path(__file__).resolve().parents[1]
_STATISTICS = ("surface", "growth", "verdict", "saturation")
# The files and the tests of each room; `_CONTRACT` tests every room.
ROOMS = {
    "costs": (("isosweep/costs/*.py",), ("tests/costs/test_*.py",)),
    "plan": (("isosweep/plan/*.py",), ("tests/plan/test_*.py",)),
    "store": (("isosweep/store/*.py",), ("tests/store/test_*.py",)),
    "verdict": (
        (*(f"analysis/statistics/{name}.py" for name in _STATISTICS), "analysis/conclude.py"),
        ("tests/analysis/statistics/test_*.py", "tests/analysis/test_*.py"),
    ),
}
_CONTRACT = tuple(
    f"tests/contract/test_{name}.py" for name in ("plans", "stored_numbers", "task_rows")
)
_SLOW = "slurm or browser or disk or package or slow or vllm or ray or long or train or mlflow"
# Processor seconds: of a mutant's tests at their usual pace, and of a fork that may be endless.
TESTS_S, ENDLESS_S = 5.0, 20
# The longest test that forks are prepared by, in processor seconds.
WARM_S = 0.5
# An answer that begins so is about a mutant that could not be put in place.
_BROKEN = "broken: "


@dataclass
class Mutant:
    """A changed function, and the first test that failed; empty where none did."""

    room: str
    path: str
    function: str
    number: int
    source: str = ""
    killer: str = ""


def files_of(patterns: tuple[str, ...]) -> list[Path]:
    """Files that fit one of the patterns."""
    return [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]


def functions_of(module: cst.Module) -> dict[str, cst.FunctionDef]:
    """Functions and methods by qualified name."""
    found = {}
    for node in module.body:
        prefix = f"{node.name.value}." if isinstance(node, cst.ClassDef) else ""
        for each in node.body.body if isinstance(node, cst.ClassDef) else (node,):
            if isinstance(each, cst.FunctionDef):
                found[prefix + each.name.value] = each
    return found


def texts_of(source: str) -> dict[str, str]:
    """Text of every function, without comments above it."""
    module = cst.parse_module(source)
    functions = functions_of(module).items()
    bare = {name: node.with_changes(leading_lines=[]) for name, node in functions}
    return {name: module.code_for_node(node) for name, node in bare.items()}


def sample_of(size: int, seed: int, since: str | None) -> list[Mutant]:
    """`size` mutants, in each room by the lines of its functions; all rooms in random order.

    since: only functions that had the same text at this revision.
    """
    lines: dict[str, int] = defaultdict(int)
    ranked: dict[str, list[tuple[str, Mutant, cst.Module, Mutation]]] = defaultdict(list)
    for room, (patterns, _) in ROOMS.items():
        for path in files_of(patterns):
            name, source = str(path.relative_to(ROOT)), path.read_text()
            now = texts_of(source)
            before = now if since is None else texts_of(text_at(since, name))
            module, mutations, *_ = create_mutations(name, source)
            made: dict[Any, list[Mutation]] = defaultdict(list)
            for mutation in mutations:
                made[mutation.contained_by_top_level_function].append(mutation)
            for function, node in functions_of(module).items():
                if now[function] != before.get(function):
                    continue
                lines[room] += len(now[function].splitlines())
                for number, mutation in enumerate(made[node]):
                    key = f"{seed} {name} {function} {number}"
                    rank = hashlib.sha256(key.encode()).hexdigest()
                    mutant = Mutant(room=room, path=name, function=function, number=number)
                    ranked[room].append((rank, mutant, module, mutation))
    sample = []
    for room, mutants in ranked.items():
        mutants.sort(key=lambda each: each[0])
        kept = (each for each in mutants if changes_code(each[3]))
        sample += list(islice(kept, round(size * lines[room] / sum(lines.values()))))
    for _, mutant, module, mutation in sample:
        mutant.source = replaced(module, mutation).code
    return [mutant for _, mutant, *_ in sorted(sample, key=lambda each: each[0])]


def text_at(revision: str, path: str) -> str:
    """A file's text at a revision; empty where there was none."""
    command = ["git", "show", f"{revision}:{path}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


def replaced(node: Any, mutation: Mutation) -> Any:
    """The node with the mutation."""
    return deep_replace(node, mutation.original_node, mutation.mutated_node)


def changes_code(mutation: Mutation) -> bool:
    """Whether a function's code changes: a parameter's default is no part of it."""
    function: Any = mutation.contained_by_top_level_function
    same: bool = replaced(function, mutation).params.deep_equals(function.params)
    return same


def code_of(within: CodeType, function: str) -> CodeType | None:
    """The code of a function by its qualified name."""
    inner = [each for each in within.co_consts if isinstance(each, CodeType)]
    own = [each for each in inner if each.co_qualname == function]
    return own[-1] if own else next(filter(None, (code_of(each, function) for each in inner)), None)


def lines_of(code: CodeType) -> set[int]:
    """Lines of the bodies of functions."""
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    own = {line for *_, line in code.co_lines() if line and line > code.co_firstlineno}
    is_function = code.co_flags & inspect.CO_NEWLOCALS
    return (own if is_function else set()).union(*map(lines_of, inner))


def in_fork(work: Callable[[], Any], cpu_s: int) -> Any:
    """The JSON value that `work` returns in a fork, or the signal that ended it."""
    with tempfile.NamedTemporaryFile("r") as answer:
        if not (child := os.fork()):
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 9))
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (1, 2):
                os.dup2(nothing, stream)
            try:
                result = work()
            except Exception as error:
                result = f"{_BROKEN}{error!r}"
            Path(answer.name).write_text(json.dumps(result))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        text = answer.read()
        return json.loads(text) if text else f"signal {os.WTERMSIG(status)}"


class Scoring:
    """In place of pytest's loop: one pass over all tests, then each mutant's own."""

    def __init__(self, sample: list[Mutant]) -> None:
        """`sample`: mutants, which get their `killer`."""
        self._sample = sample
        self._functions: dict[tuple[str, str], list[FunctionType]] = defaultdict(list)
        self._caches: list[Any] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._session = session
        files = {str(ROOT / mutant.path): mutant.path for mutant in self._sample}
        # By type(): isinstance asks proxies of other libraries, which warn.
        for each in gc.get_objects():
            if type(each) is FunctionType:
                if path := files.get(os.path.realpath(each.__code__.co_filename)):
                    self._functions[path, each.__code__.co_qualname].append(each)
            elif type(each) is type(cache(len)) and each.__module__.startswith(
                ("isosweep", "tests")
            ):
                self._caches.append(each)
        self._seconds, self._reaching, covered, self._failing = in_fork(self._pass_over_tests, 3600)
        print(f"{len(self._seconds)} tests take {sum(self._seconds.values()):.0f} s")
        print(f"left out, because they fail without a mutant: {self._failing}")
        for room, (hit, lines) in covered.items():
            print(f"{room}: {hit} of {lines} lines of functions run, {hit / lines:.1%}")
        self._warm_up()
        for mutant in self._sample:
            mutant.killer = in_fork(partial(self._first_failing, mutant), ENDLESS_S)
            place = f"{mutant.path} {mutant.function} {mutant.number}"
            print(f"{place}: {mutant.killer or 'not noticed'}", flush=True)
        gc.unfreeze()
        return True

    def _passes(self, item: pytest.Item, following: pytest.Item | None) -> bool:
        before = self._session.testsfailed
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return self._session.testsfailed == before

    def _forget(self) -> None:
        for each in self._caches:
            each.cache_clear()

    def _warm_up(self) -> None:
        """Run one test of every module: forks then have what functions import."""
        prepared: dict[Path, pytest.Item] = {}
        for item in sorted(self._session.items, key=lambda item: -self._seconds[item.nodeid]):
            if self._seconds[item.nodeid] < WARM_S:
                prepared.setdefault(item.path, item)
        for item in prepared.values():
            self._passes(item, None)
        self._forget()
        # Forks share the memory of frozen objects.
        gc.freeze()

    def _pass_over_tests(self) -> Any:
        """Seconds of each test, who reaches each line, lines run in each room, and failures."""
        files = {room: files_of(patterns) for room, (patterns, _) in ROOMS.items()}
        include = [str(path) for own in files.values() for path in own]
        measured = coverage.Coverage(data_file=None, include=include, config_file=False)
        measured.start()
        seconds, failing, module = {}, [], None
        for item, following in zip_longest(self._session.items, self._session.items[1:]):
            if item.path != module:
                # Tests of a module share what they cache; other modules compute it again.
                self._forget()
                module = item.path
            measured.switch_context(item.nodeid)
            started = time.process_time()
            if not self._passes(item, following):
                failing.append(item.nodeid)
            seconds[item.nodeid] = time.process_time() - started
        measured.stop()
        reaching: dict[str, list[str]] = {}
        covered: dict[str, tuple[int, int]] = {}
        for room, own in files.items():
            hit = lines = 0
            for path in own:
                tests = measured.get_data().contexts_by_lineno(str(path))
                bodies = lines_of(compile(path.read_text(), path, "exec"))
                hit, lines = hit + len(bodies & tests.keys()), lines + len(bodies)
                name = path.relative_to(ROOT)
                reaching |= {f"{name}:{line}": found for line, found in tests.items()}
            covered[room] = hit, lines
        return seconds, reaching, covered, failing

    def _first_failing(self, mutant: Mutant) -> str:
        functions = self._functions[mutant.path, mutant.function]
        if not functions:
            return ""
        tests = self._tests_of(mutant, functions[0].__code__)
        filename = functions[0].__code__.co_filename
        code = code_of(compile(mutant.source, filename, "exec"), mutant.function)
        assert code is not None
        for function in functions:
            function.__code__ = code
        self._forget()
        pairs = zip_longest(tests, tests[1:])
        return next((item.nodeid for item, after in pairs if not self._passes(item, after)), "")

    def _tests_of(self, mutant: Mutant, code: CodeType) -> list[pytest.Item]:
        """Tests that reach the changed line, or where none is known to the function; then others of
        their modules, which share results. Those that are likely to fail come early."""
        texts = (ROOT / mutant.path).read_text().splitlines(), mutant.source.splitlines()
        pairs = enumerate(zip(*texts, strict=False), start=1)
        lines = {next(number for number, (old, new) in pairs if old != new)}
        if not any(f"{mutant.path}:{line}" in self._reaching for line in lines):
            lines = lines_of(code)
        reaching = {
            test for line in lines for test in self._reaching.get(f"{mutant.path}:{line}", ())
        }
        contract = files_of(_CONTRACT)
        rooms = {*files_of(ROOMS[mutant.room][1]), *contract}
        modules = {item.path for item in self._session.items if item.nodeid in reaching} & rooms

        def order(item: pytest.Item) -> tuple[bool, float]:
            likely = Path(mutant.path).stem in item.path.stem or item.path in contract
            return item.nodeid not in reaching, self._seconds[item.nodeid] / (4 if likely else 1)

        spent, tests = 0.0, []
        for item in sorted(self._session.items, key=order):
            if item.path in modules and item.nodeid not in self._failing:
                spent += self._seconds[item.nodeid]
                if spent < TESTS_S:
                    tests.append(item)
        return tests


def main() -> None:
    """Score a sample; print the share that is noticed in each room."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sample", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--unchanged-since", help="only functions with the text of this revision")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutants.json")
    given = parser.parse_args()
    sample = sample_of(given.sample, given.seed, given.unchanged_since)
    tests = [str(path) for _, own in ROOMS.values() for path in files_of((*own, *_CONTRACT))]
    with tempfile.TemporaryDirectory() as directory:
        options = ["-q", "-s", "-n0", "-p", "no:cacheprovider", f"--basetemp={directory}/tests"]
        pytest.main([*options, "-m", f"not ({_SLOW})", *tests], plugins=[Scoring(sample)])
    given.out.parent.mkdir(exist_ok=True)
    given.out.write_text(json.dumps([asdict(mutant) for mutant in sample], indent=1))
    scored = [mutant for mutant in sample if not mutant.killer.startswith(_BROKEN)]
    for room in (*ROOMS, ""):
        own = [bool(mutant.killer) for mutant in scored if room in ("", mutant.room)]
        print(f"{room or 'all'}: {sum(own)} of {len(own)} mutants noticed, {fmean(own):.1%}")


if __name__ == "__main__":
    main()
