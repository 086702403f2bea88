"""Code problems: rows with tests of two forms, and programs judged by them in a sandbox."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from isosweep.config.task import TaskConfig
from isosweep.errors import SettingError
from isosweep.tasks import Problem, heldout_problems, problem_sets
from isosweep.tasks.code import program_of
from tests.conftest import make_config
from tests.tasks.files import code_overrides, scores, write_rows


def code_task(path: Path, *more: str) -> TaskConfig:
    return make_config(*code_overrides(path, *more)).task


def judged(task: TaskConfig, problem: Problem, *programs: str) -> list[float]:
    completions = [f"So:\n```python\n{program}\n```\nDone." for program in programs]
    return scores(task, [problem] * len(programs), completions)


HUMAN_EVAL = "def check(candidate):\n    assert candidate(1) == 2\n"
STDIN = [{"input": "1", "output": "2"}]


@pytest.mark.parametrize(
    ("tests", "program"),
    [
        # MBPP, HumanEval.
        (["assert f(1) == 2", "assert f(2) == 3"], "def f(x): return x + 1"),
        ("import math\nassert math.isclose(f(), math.pi)", "import math\ndef f(): return math.pi"),
        (HUMAN_EVAL, "def g(x): return x + 1"),
        # DeepCoder (as JSON text), LiveCodeBench, APPS.
        (
            '[{"type": "stdin_stdout", "input": "1\\n", "output": "2\\n"}]',
            "print(int(input()) + 1)",
        ),
        ([{**STDIN[0], "testtype": "stdin"}], "print(int(input()) + 1)"),
        ({"inputs": ["1", ["2", "3"]], "outputs": ["2\n", ["3"]]}, "print(int(input()) + 1)"),
    ],
)
def test_tests_are_taken_as_data_sets_have_them(tests: Any, program: str, tmp_path: Path) -> None:
    rows = [{"problem": f"Problem {i}", "tests": tests, "name": "g"} for i in range(12)]
    path = write_rows(tmp_path / "a.jsonl", rows)
    column = "task.code.entry_point_column=name"
    task = code_task(path, column) if tests == HUMAN_EVAL else code_task(path)
    problem, wrong = heldout_problems(task)[0], program.replace("1", "2").replace("pi", "e")
    assert problem.prompt.endswith("between ```python and ```.")
    assert judged(task, problem, program, wrong, "", "def f(:") == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("tests", "message"),
    [
        ([], r"has '\[\]', which"),
        ([{"input": "1", "output": ""}], "expects no output"),
        ([{"input": [1], "output": "1"}], "no text"),
        ({"fn_name": "f", "inputs": ["1"], "outputs": ["1"]}, "gives inputs to a function"),
        ({"inputs": ["1"], "outputs": []}, "knows no form"),
        ("assert f(1", "'assert f.1': '.' was never closed"),
        (HUMAN_EVAL, "asserts nothing"),
        ("assert abs(sum(1, 2)) == 3", "asserts nothing"),
    ],
)
def test_tests_that_cannot_be_used_are_reported_with_their_row(
    tests: Any, message: str, tmp_path: Path
) -> None:
    usable = [{"problem": f"Problem {i}", "tests": STDIN} for i in range(16)]
    path = write_rows(tmp_path / "a.jsonl", [*usable, {"problem": "?", "tests": tests}])
    with pytest.raises(SettingError, match=rf"1 of 17 rows .* rows 17 of .*{message}") as caught:
        problem_sets(code_task(path, "task.num_train_problems=13"))
    assert caught.value.setting == "task.code.skip_unusable"
    task = code_task(path, "task.num_train_problems=12", "task.code.skip_unusable=true")
    assert all(problem.prompt[:1] != "?" for problem in problem_sets(task).training)


def test_the_rows_that_the_docs_show_are_complete(tmp_path: Path) -> None:
    docs = Path(__file__).parents[2] / "docs" / "code_tasks.md"
    path = tmp_path / "a.jsonl"
    path.write_text(docs.read_text(encoding="utf-8").partition("```json\n")[2].partition("```")[0])
    task = code_task(path, "task.num_train_problems=1", "task.num_eval_problems=1")
    program = (
        "def add(a, b): return a + b\n"
        "if __name__ == '__main__': print(add(*map(int, input().split())))"
    )
    for problem in (*problem_sets(task).training, *problem_sets(task).heldout):
        assert judged(task, problem, program, "") == [1.0, 0.0]


def test_the_program_is_the_last_closed_block() -> None:
    assert program_of("a\n```py\nb\n```\nc\n```\nd = '``'\n```\n```python\ne") == "d = '``'\n"
    assert program_of("````\n```\nx\n```\n````") == "```\nx\n```\n"
    assert program_of("print(1)") == "print(1)"
    assert program_of("```python\r\na\r\nb\r\n```\r\nDone.") == "a\nb\n"
    # In a list, with a fence of other depth inside.
    listed = "1. So:\n\n   ```python\n   if a:\n     ```\n     b\n   ```\n2. Then."
    assert program_of(listed) == "if a:\n  ```\n  b\n"
    began = time.monotonic()
    program_of("```\n" * 20_001)
    program_of("````\n" + "```\n" * 20_000)
    assert time.monotonic() - began < 2


# A process, and all that it starts, for which the kernel refuses seccomp(...) and
# prctl(PR_SET_SECCOMP), as in a container that forbids them.
FORBIDDEN = """
import ctypes, errno
from isosweep.sandbox.confinement import _EQUAL, _SECCOMP as library, _Argument
rules = ctypes.c_void_p(library.seccomp_init(0x7FFF0000))
for name, *more in ((b"seccomp",), (b"prctl", _Argument(0, _EQUAL, 22))):
    number, listed = library.seccomp_syscall_resolve_name(name), (_Argument * len(more))(*more)
    library.seccomp_rule_add_array(rules, 0x00050000 | errno.EPERM, number, len(more), listed)
assert library.seccomp_load(rules) == 0
"""


def test_where_programs_cannot_be_confined_none_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    rows = [{"problem": f"Problem {i}", "tests": STDIN} for i in range(12)]
    path = write_rows(tmp_path / "a.jsonl", rows)
    code = (
        "from tests.conftest import make_config\n"
        "from isosweep.difficulty.selection import choose_variants\n"
        "from isosweep.errors import PreflightError\n"
        "from isosweep.preflight.machine import preflight\n"
        "from isosweep.tasks import judge, training_problems\n"
        f"config = make_config(*{code_overrides(path)!r})\n"
        "try: preflight(config, choose_variants(config))\n"
        "except PreflightError as error: print(error)\n"
        f"program = {f'open({str(mark)!r}, chr(119))'!r}\n"
        "try: judge(config.task, training_problems(config.task)[:1], [program])\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", FORBIDDEN + code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    why = "the kernel takes no seccomp filter"
    assert f"missing: a sandbox for programs (task=code): {why}" in ran.stdout
    assert f"CheckerError programs cannot be run in a sandbox: {why}" in ran.stdout
    assert not mark.exists()
