"""The command line: `python -m isosweep [mode=...] [overrides]`, with Hydra's own habits."""

import contextlib
import errno
import gc
import io
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TextIO, cast


def _at_once(number: int, frame: FrameType | None) -> None:
    os.write(2, b"isosweep: interrupted\n")
    os._exit(128 + number)


# What follows takes a second to import, where a KeyboardInterrupt would be a traceback.
if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _at_once)

# Importing and composing make many small objects that stay: collections would find nothing.
gc.set_threshold(100_000, 50, 50)
# Nor is a plugin of pydantic looked for among all packages that are installed.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from isosweep.config.compose import FILE, composed_config, from_hydra, prepared, shown_config
from isosweep.config.overrides import quoted
from isosweep.config.refusals import UNCOMPOSED, config_directory, refusal
from isosweep.config.sweep import SweepConfig
from isosweep.config.trust import hidden
from isosweep.errors import IsosweepError, SettingError
from isosweep.modes.dispatch import prepare_all
from isosweep.modes.signals import INTERRUPTED, Output
from isosweep.modes.terminal import Terminal
from isosweep.modes.usage import help_text, version_text
from isosweep.words.escape import printable

_jobs: list[SweepConfig] = []


@hydra.main(version_base="1.3", config_path=str(config_directory()), config_name="config")
def _collect(composed: DictConfig) -> None:
    """Hydra only composes: a bad last job of a multirun is refused before the first one starts."""
    _hide_passwords()
    try:
        _jobs.append(from_hydra(composed, HydraConfig.get().overrides.task))
    except IsosweepError as error:
        _leave(error)


def _hide_passwords() -> None:
    """Take passwords out of what Hydra writes of a multirun."""
    if HydraConfig.get().mode is RunMode.MULTIRUN:
        written = Path(HydraConfig.get().sweep.dir, "multirun.yaml")
        written.write_text(hidden(written.read_text()))


def _compose() -> None:
    """Collect the jobs; what Hydra refuses is said in our words."""
    options, words = _options_and_overrides(sys.argv[1:])
    pairs = [text.partition("=") for text in options]
    own = [Path(value) for name, _, value in pairs if name in ("--config-dir", "-cd") and value]
    typed = prepared(words, own)
    sys.argv[1:] = [*typed, *options]
    for name, _, directory in pairs:
        if name in ("--config-name", "-cn", "--config-path", "-cp"):
            rule = "is not used: `isosweep FILE.yaml` reads settings of yours"
            raise SettingError("options", f"{name} {directory}", rule, FILE)
        if directory and name in ("--config-dir", "-cd"):
            if not Path(directory).is_dir():
                rule = "is no directory, and holds files of settings of yours"
                raise SettingError("options", f"{name} {directory}", rule, FILE)
            typed.append(f"hydra.searchpath=[{quoted(str(Path(directory).absolute()))}]")
    if {"--cfg=job", "-c=job"} & {*options} and not any("-p" in each for each in options):
        print(shown_config(typed), end="")
        sys.exit(0)
    asked = os.environ.get("HYDRA_FULL_ERROR")
    if not options and asked is None and not any("hydra" in word for word in typed):
        # Hydra's own main composes twice, to learn first whether it is a multirun.
        return _jobs.append(composed_config(typed))
    # Otherwise Hydra prints its own and leaves with 1; who has set it wants the traceback.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            _collect()
    except SystemExit as left:
        if left.code != 2 or not said.getvalue().startswith("usage:"):
            raise
        # argparse, of an option that there is not.
        rule = said.getvalue().strip().rpartition("error: ")[2]
        said.truncate(0)
        files = any(text.startswith("--config") for text in options)
        nearest = FILE if files else "SETTING=VALUE without dashes; --help shows them"
        raise SettingError("options", " ".join(options), rule, nearest) from None
    except UNCOMPOSED as error:
        if asked is not None:
            raise
        raise refusal(error, typed) from None
    finally:
        sys.stderr.write(said.getvalue())
        if asked is None:
            del os.environ["HYDRA_FULL_ERROR"]


def _options_and_overrides(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Options, with their values, and overrides: argparse takes no option between these."""
    options, overrides = list[str](), list[str]()
    for before, text in zip(["", *words], words, strict=False):
        if re.fullmatch("--config-(?:dir|name|path)|-c[dnp]?|--cfg|--package|-p", before):
            options[-1] = f"{before}={text}"
        elif text == "--config":
            continue  # isosweep --config my.yaml, as isosweep my.yaml
        elif text.startswith("-"):
            options.append(text)
        else:
            overrides.append(text)
    return options, overrides


def main() -> None:
    """Entry point; exit status 0, 1 for failed runs, 2 for bad input, 130 after Ctrl-C."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        return _help([word for word in sys.argv[1:] if not word.startswith("-")])
    if "--version" in sys.argv[1:]:
        return print(version_text())
    # A service manager's stop is treated as Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    worst = 0
    try:
        if signal.getsignal(signal.SIGINT) is _at_once:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        _compose()
        console = Terminal(highlight=False, file=cast(TextIO, Output(sys.stdout)))
        for action in prepare_all(_jobs):
            worst = max(worst, action(console))
            if worst == INTERRUPTED:
                break
        console.file.flush()
    except KeyboardInterrupt:
        print("isosweep: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except IsosweepError as error:
        _leave(error)
    except OSError as error:
        # A disk that is full or read-only: what is on it stays, and mode=resume goes on from it.
        # Or a sweep of somebody else, who lets it be read, or has put a link into it.
        known = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ELOOP)
        if error.errno not in known:
            raise
        print(printable(f"isosweep: {error.filename or ''}: {error.strerror}"), file=sys.stderr)
        sys.exit(1)
    sys.exit(worst)


def _help(words: Sequence[str]) -> None:
    """Print what isosweep is, or what the words mean."""
    if not words:
        return print(help_text(config_directory()))
    from isosweep.config.described import help_of

    try:
        print("\n\n".join(map(help_of, words)))
    except IsosweepError as error:
        _leave(error)


def _leave(error: IsosweepError) -> None:
    print(printable(f"isosweep: {error}"), file=sys.stderr)
    sys.exit(error.exit_status)


if __name__ == "__main__":
    main()
