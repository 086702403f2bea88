"""Problems of a dataset or file whose answers are Python programs, judged by tests.

Tests are inputs and outputs of whole programs (DeepCoder, LiveCodeBench, APPS), or assert
statements that call what the program defines (MBPP, HumanEval): whichever a row holds. Programs run
in a sandbox (`isosweep/sandbox/`), which says what it does not cover.
"""

import ast
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

from isosweep.config.task import CodeConfig, TaskConfig
from isosweep.sandbox.calls import names_of_program
from isosweep.sandbox.judging import Limits, Sandbox, SandboxError
from isosweep.tasks.checking import CheckerError, begin_judging
from isosweep.tasks.problem import Judged, Problem
from isosweep.tasks.rows import Row, read_problems, text, usable_problems

# Seconds that a checker may take besides the program's: the sandbox ends programs by itself.
_OVERHEAD_S = 20.0
# A block of code in Markdown (CommonMark 4.5), closed.
_BLOCK = re.compile(r"^([ \t]*)(`{3,})[^`\n]*\n(.*?)^\1\2`*[ \t]*$", re.MULTILINE | re.DOTALL)
# What DeepCoder and LiveCodeBench call a test of input and output; others call it nothing.
_PLAIN_KINDS = ("stdin_stdout", "stdin", None)


def pool(task: TaskConfig, wanted: int) -> list[Problem]:
    """`wanted` distinct problems, chosen by the hash of their text; all where there are fewer.

    Raises SettingError for a source that cannot be read, a missing column, a row without text,
    or tests that cannot be used (with their row).
    """
    config = task.code
    assert config is not None
    columns = ["tests_column", "entry_point_column"]
    rows = read_problems(config, columns, partial(_held, config))
    return usable_problems(task, config, wanted, rows, _with_tests, "skip_unusable")


def _with_tests(problems: Sequence[Problem]) -> Iterator[Problem | str]:
    """Each of the problems with its tests as the sandbox takes them, or why they cannot be used."""
    for problem in problems:
        try:
            yield replace(problem, answer=json.dumps(_usable(*json.loads(problem.answer))))
        except ValueError as error:
            yield str(error)


def judge_later(
    task: TaskConfig, problems: Sequence[Problem], completions: Sequence[str]
) -> Callable[[], list[Judged]]:
    """1 where the completion's program passes all tests of its problem, else 0."""
    config = task.code
    assert config is not None
    limits = Limits(seconds=config.time_limit_s, memory_bytes=config.memory_mb << 20)
    calls = [
        (program_of(completion), problem.answer, limits)
        for problem, completion in zip(problems, completions, strict=True)
    ]
    return begin_judging(score, calls, config.time_limit_s + _OVERHEAD_S, share=1)


def score(program: str, tests: str, limits: Limits) -> tuple[float, str | None]:
    """1 if the program passes all tests, else 0. Raises CheckerError where it cannot be run."""
    try:
        return float(_sandbox().passes(program, json.loads(tests), limits)), None
    except SandboxError as error:
        raise CheckerError(f"programs cannot be run in a sandbox: {error}") from None
    except ConnectionError as error:
        # With a server anew, for the same program.
        raise SystemExit(str(error)) from None


@cache
def _sandbox() -> Sandbox:
    return Sandbox()


def program_of(completion: str) -> str:
    """The last fenced block of code that is closed; without one all of the completion.

    A block in a list of Markdown is indented, fences and all.
    """
    lines = completion.replace("\r\n", "\n")
    blocks = _BLOCK.findall(lines)
    return textwrap.dedent(blocks[-1][2]) if blocks else lines


def _held(config: CodeConfig, number: int, row: Row) -> str:
    """Tests and name of the function that they are given, as the row has them."""
    tests, name = row[config.tests_column], None
    if config.entry_point_column is not None:
        name = text(config, number, row, "entry_point_column")
    # What is no JSON is no test, which `_usable` says.
    return json.dumps([tests, name], default=str)


def _usable(tests: Any, entry_point: str | None) -> dict[str, Any]:
    """The tests as the sandbox takes them. Raises ValueError that says why they cannot be used."""
    if isinstance(tests, str):
        try:
            tests = json.loads(tests)
        except ValueError:
            tests = [tests]
    match tests:
        case [str(), *_] if all(isinstance(line, str) for line in tests):
            return {"asserts": _asserts("\n".join(tests), entry_point)}
        case {"inputs": list(inputs), "outputs": list(outputs)} if len(inputs) == len(outputs):
            pairs = zip(inputs, outputs, strict=True)
            name = tests.get("fn_name")
            cases = [{"input": i, "output": o, "fn_name": name} for i, o in pairs]
        case [dict(), *_] if all(isinstance(case, dict) for case in tests):
            cases = tests
        case _:
            cases = []
    if not cases or not all({"input", "output"} <= case.keys() for case in cases):
        raise ValueError(f"has {str(tests)[:80]!r}, which docs/code_tasks.md knows no form for")
    for case in cases:
        if case.get("fn_name") or case.get("type", case.get("testtype")) not in _PLAIN_KINDS:
            raise ValueError("gives inputs to a function, and not to a program")
    texts = [[_lines(case["input"]), _lines(case["output"])] for case in cases]
    if not any(wanted.strip() for _, wanted in texts):
        raise ValueError("expects no output, which every program that fails gives")
    return {"pairs": texts}


def _lines(value: Any) -> str:
    """An input or an output: text, or a list of lines. Raises ValueError."""
    lines = value if isinstance(value, list) else [value]
    if not all(isinstance(line, str) for line in lines):
        raise ValueError("has an input or an output that is no text")
    return "\n".join(lines)


def _asserts(statements: str, entry_point: str | None) -> str:
    """Statements that assert something about the program. Raises ValueError for others."""
    if entry_point is not None:
        statements += f"\ncheck({entry_point})\n"
    shown = f"has {statements[:80]!r}"
    try:
        tree, names = ast.parse(statements), names_of_program(statements)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"{shown}: {error}") from None
    if not names or not any(isinstance(node, ast.Assert | ast.Raise) for node in ast.walk(tree)):
        raise ValueError(f"{shown}, which asserts nothing about a function of the program's")
    return statements
