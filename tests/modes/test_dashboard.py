"""MLflow's own pages of a sweep: what `mode=dashboard` opens."""

import asyncio
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, build_opener, urlopen

import pytest

from isosweep.modes.dashboard import Guard
from tests.commands import Command, in_process
from tests.conftest import SMALL, isosweep, refused
from tests.modes.sweeps import write_records
from tests.runs import wait_for

# Of which the made records have spent all.
BUDGETS = ("budget_unit=device_hours", "budget=[0.005,0.01]")
SWEEP = (*BUDGETS, *SMALL, "grid.num_generations=[2,4,8]")


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a sweep of made records, and the line that its analysis ended with."""
    cwd = tmp_path_factory.mktemp("dashboard")
    in_process(("mode=plan", *SWEEP), cwd)
    write_records(cwd)
    done = isosweep("mode=analyse", *SWEEP, cwd=cwd)
    assert re.search(r"^dashboard: python -m isosweep mode=dashboard sweep=", done.stdout, re.M)
    return cwd


@pytest.fixture(scope="module")
def dashboard(analysed: Path) -> Iterator[str]:
    """The link of a dashboard, which then ends by Ctrl-C, with status 0 and nothing left."""
    # One for all tests: what an earlier one has written would be taken for its link.
    command = Command("mode=dashboard", cwd=analysed, output=analysed / "written")
    try:
        wait_for(lambda: "until Ctrl-C" in command.written)
        found = re.search(r"^dashboard: (\S+)", command.written, re.M)
        assert found is not None
        yield found[1]
    finally:
        command.send_signal(signal.SIGINT)
        assert command.wait(60) == 0


@pytest.mark.mlflow
def test_a_store_without_the_sweep_is_refused_with_what_makes_it(analysed: Path) -> None:
    for setting, said in (
        ("tracking=none", "tracking=none: keeps no store that could be shown"),
        (f"tracking.uri=sqlite:///{analysed}/no.db", "no.db: holds no run of the sweep in exp"),
        ("tracking.uri=http://127.0.0.1:1", "http://127.0.0.1:1: [Errno 111] Connection refused"),
    ):
        assert said in refused("mode=dashboard", setting, cwd=analysed)
    assert not (analysed / "no.db").exists()


@pytest.mark.mlflow
def test_pages_are_shown_to_whoever_has_the_link_alone(dashboard: str) -> None:
    link, _, _ = dashboard.partition("#")
    address, _, _ = link.partition("?token=")
    with pytest.raises(HTTPError, match="403"):
        urlopen(f"{address}get-artifact?path=.")
    with build_opener(HTTPCookieProcessor()).open(link) as answer:
        assert answer.url == address
        assert b"<title>MLflow</title>" in answer.read()


@pytest.mark.parametrize(
    ("query", "cookie", "shown"),
    [
        ("", "", 403),
        ("token=another", "", 403),
        ("", "isosweep-4711=another", 403),
        # Of another port.
        ("", "isosweep-4712=a-token", 403),
        ("", "other=a-token; =;;\x00", 403),
        ("token=a-token", "", 303),
        ("", "other=1; isosweep-4711=a-token", 200),
    ],
)
def test_who_lacks_the_token_is_shown_nothing(query: str, cookie: str, shown: int) -> None:
    sent: list[Any] = []

    async def pages(scope: Any, receive: Any, send: Any) -> None:
        sent.append({"status": 200})

    async def send(message: Any) -> None:
        sent.append(message)

    for kind in ("http", "websocket"):
        scope: dict[str, Any] = {"type": kind, "path": "/get-artifact"}
        scope |= {"query_string": query.encode(), "headers": [(b"cookie", cookie.encode())]}
        scope["server"] = ("127.0.0.1", 4711)
        sent.clear()
        asyncio.run(Guard(pages, "a-token")(scope, None, send))
        assert sent[0]["status"] == shown
    if shown == 303:
        headers = dict(sent[0]["headers"])
        assert headers[b"location"] == b"/get-artifact"
        value, *flags = headers[b"set-cookie"].decode().split("; ")
        assert value == "isosweep-4711=a-token"
        assert {"HttpOnly", "SameSite=lax"} <= set(flags)
