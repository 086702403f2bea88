"""Commands of a scheduler: what they answered, in time or not, and in their own words."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a command printed; `words`: what it says of a failure, None where it succeeded.

    `timed_out`: it was ended before it had answered, so that what it asked for may be done or not.
    """

    out: str
    words: str | None
    timed_out: bool = False


def call(
    command: Sequence[str],
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    given: str = "",
) -> Answer:
    """Run `command`, with `given` as its input and for `timeout_s` at most. Raises nothing that it
    causes."""
    try:
        done = subprocess.run(
            command,
            input=given.encode(),
            capture_output=True,
            timeout=timeout_s,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        said = _words(command[0], late.stderr or b"")
        words = f"{command[0]} gave no answer in {timeout_s:g} s{said and f': {said}'}"
        return Answer(out="", words=words, timed_out=True)
    except OSError as error:
        return Answer(out="", words=f"{command[0]}: {error.strerror}")
    out = done.stdout.decode(errors="replace")
    if done.returncode == 0:
        return Answer(out=out, words=None)
    said = _words(command[0], done.stderr or done.stdout)
    return Answer(out=out, words=said or f"{command[0]} ended with status {done.returncode}")


def _words(program: str, printed: bytes) -> str:
    """What a command printed of an error, on one line and without its own name."""
    lines = [line.strip() for line in printed.decode(errors="replace").splitlines()]
    heads = (f"{program}: error: ", f"{program}: fatal: ", f"{program}: ")
    plain = []
    for line in filter(None, lines):
        head = next((head for head in heads if line.startswith(head)), "")
        plain.append(line.removeprefix(head))
    return "; ".join(dict.fromkeys(plain))
