"""What a checker process does (see checking.py): requests on stdin, answers on stdout, as JSON.

It is run as a script and imports nothing of isosweep but its sandbox. A request names its `judge`.
Whatever a verifier raises on a completion means that the completion is not right: score 0.
"""

import json
import logging
import os
import resource
import signal
import sys
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

# Memory of one checker: a verifier led to a number of gigabytes fails alone.
_MEMORY_BYTES = 8 << 30
# math-verify's own limits, by SIGALRM; checking.py kills what they do not end.
_TIMEOUT_S = 5
# Characters of an answer: what is longer is told apart by its beginning.
_LONGEST = 500
# CPU time of one request after which the kernel ends this process, were nobody left to kill it.
_ORPHAN_LIMIT_S = 600


@lru_cache(maxsize=65536)
def _gold(answer: str) -> list[Any]:
    """The parsed reference answer; [] where math-verify cannot read it.

    Most datasets hold bare LaTeX, which is only recognised as such between dollar signs.
    """
    from math_verify import parse

    marked = "$" in answer or "\\boxed" in answer or "\\[" in answer or "\\(" in answer
    parts = [] if marked else parse(f"${answer}$", parsing_timeout=_TIMEOUT_S)
    return list(parts or parse(answer, parsing_timeout=_TIMEOUT_S))


def parse_answer(request: dict[str, Any]) -> dict[str, Any]:
    """Whether the reference answer can be read: more of it than its text was parsed."""
    parts = _gold(request["answer"])
    return {"readable": any(not isinstance(part, str) for part in parts)}


def score_math(request: dict[str, Any]) -> dict[str, Any]:
    """1 if the completion's boxed expression (or else its last one) equals the answer, else 0."""
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

    # Priority 0: a boxed expression goes before any other.
    kinds = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]
    answer = parse(request["completion"], extraction_config=kinds, parsing_timeout=_TIMEOUT_S)
    right = verify(_gold(request["answer"]), answer, timeout_seconds=_TIMEOUT_S)
    return {"score": float(right), "answer": _text(answer)}


def _text(answer: list[Any]) -> str | None:
    """What was parsed, as text; None of nothing, or of a number too long to be written."""
    try:
        return str(answer[0])[:_LONGEST]
    except (IndexError, ValueError):
        return None


@lru_cache(maxsize=4)
def _generator(name: str, seed: int, size: int, parameters: str) -> Any:
    import reasoning_gym

    return reasoning_gym.create_dataset(name, seed=seed, size=size, **json.loads(parameters))


@lru_cache(maxsize=65536)
def _entry(name: str, seed: int, size: int, parameters: str, index: int) -> Any:
    return _generator(name, seed, size, parameters)[index]


def _place(request: dict[str, Any]) -> tuple[str, int, int, str]:
    parameters = json.dumps(request["parameters"], sort_keys=True)
    return request["generator"], request["seed"], request["size"], parameters


def draw_entry(request: dict[str, Any]) -> dict[str, Any]:
    """Question and answer of one entry; `error` where the generator fails."""
    try:
        entry = _entry(*_place(request), request["index"])
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"question": str(entry["question"]), "answer": str(entry["answer"] or "")}


def score_reasoning(request: dict[str, Any]) -> dict[str, Any]:
    """The generator's own score of the answer in `<answer>` tags, else of the last line.

    The entry is made again, rather than sent: JSON would change its tuples and integer keys.
    """
    from reasoning_gym.utils import extract_answer

    completion = request["completion"]
    answer = extract_answer(completion)
    if answer is None:
        lines = [line.strip() for line in completion.splitlines() if line.strip()]
        answer = lines[-1] if lines else None
    place = _place(request)
    entry = _entry(*place, request["index"])
    score = float(_generator(*place).score_answer(answer, entry))
    return {"score": score, "answer": answer and answer.strip()[:_LONGEST]}


@cache
def _sandbox() -> Any:
    from isosweep.sandbox.judging import Sandbox

    return Sandbox()


def score_code(request: dict[str, Any]) -> dict[str, Any]:
    """1 if the program passes all tests, else 0."""
    from isosweep.sandbox.judging import Limits, SandboxError

    limits = Limits(seconds=request["seconds"], memory_bytes=request["memory_bytes"])
    try:
        passed = _sandbox().passes(request["program"], json.loads(request["tests"]), limits)
    except SandboxError as error:
        return {"fatal": f"programs cannot be run in a sandbox: {error}"}
    except ConnectionError as error:
        # With a server anew, for the same request.
        raise SystemExit(str(error)) from None
    return {"score": float(passed)}


def try_sandbox(_: dict[str, Any]) -> dict[str, Any]:
    """What keeps programs from being confined on this machine: `missing`, or None."""
    request = {"program": "print(1)", "tests": '{"pairs": [["", "1"]]}'}
    try:
        answer = score_code({**request, "seconds": 60.0, "memory_bytes": 1 << 30})
    except (Exception, SystemExit) as error:
        return {"missing": f"{type(error).__name__}: {error}"}
    failed = None if answer.get("score") == 1.0 else "a program that prints 1 does not print it"
    return {"missing": answer.get("fatal", failed)}


_JUDGES = {
    judge.__name__: judge
    for judge in (
        *(parse_answer, score_math, draw_entry, score_reasoning, score_code, try_sandbox),
    )
}


def main() -> None:
    """Answer verdicts on stdout, a line of JSON for each line on stdin."""
    # At the end: what lies beside isosweep must not hide other modules.
    sys.path.append(str(Path(__file__).parents[2]))
    # math-verify logs every timeout, with the completion.
    logging.disable(logging.WARNING)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    # Whatever a verifier prints must not come between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, _ORPHAN_LIMIT_S)
        try:
            answer = _JUDGES[request["judge"]](request)
        except ImportError as error:
            answer = {"fatal": str(error)}
        except Exception:
            answer = {"score": 0.0}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
