"""`mode=watch`: a page of a sweep for whoever has its link, which writes nothing."""

import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from isosweep.compute import Compute
from isosweep.errors import SettingError
from isosweep.files import write_json
from isosweep.launchers.launcher import Observed
from isosweep.modes.directory import StoredSweep
from isosweep.modes.watch import Watched
from isosweep.modes.watch_server import Page, PageServer
from isosweep.store.drivers import Claim, drive
from isosweep.store.submissions import close
from tests.commands import Command
from tests.conftest import SMALL, refused
from tests.modes.looked_after import Scheduled, ended, reported, submitted, sweep_in
from tests.modes.sweeps import QUIET, recorded, wait_until_some_run_trains
from tests.runs import wait_for


def ask(
    link: str, method: str = "GET", host: str | None = None, path: str | None = None, **headers: str
) -> tuple[HTTPResponse, str]:
    """The answer to one request, and its text."""
    address = urlsplit(link)
    assert address.hostname is not None
    connection = HTTPConnection(address.hostname, address.port, timeout=20)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.putrequest(
        method, path or f"/?{address.query}", skip_host=True, skip_accept_encoding=True
    )
    connection.putheader("Host", address.netloc if host is None else host)
    for name, value in names.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


@pytest.fixture
def server() -> Iterator[PageServer]:
    made = PageServer(0)
    made.page = Page(b"<p>the page</p>")
    with made.serving():
        yield made


@pytest.mark.parametrize(
    "path", ["/", "/?token=", "/?token=another", "/?token=%00", "/favicon.ico", "/?other=1", "//"]
)
def test_who_lacks_the_token_is_shown_nothing(server: PageServer, path: str) -> None:
    answer, text = ask(server.link, path=path)
    assert answer.status == 403
    assert text == "This page opens by the link that isosweep mode=watch has printed.\n"
    almost = server.link[:-1]
    assert ask(almost)[0].status == 403
    token = urlsplit(server.link).query.removeprefix("token=")
    assert ask(server.link, path="/", Cookie=f"token={token}")[0].status == 403


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("localhost:9000", 200),
        ("[::1]:9000", 200),
        ("", 403),
        ("rebound.example", 403),
        ("127.0.0.1.rebound.example", 403),
        ("127.0.0.1:80@rebound.example", 403),
        ("0.0.0.0", 403),
    ],
)
def test_only_names_of_this_machine_are_answered(
    server: PageServer, host: str, status: int
) -> None:
    assert ask(server.link, host=host)[0].status == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_nothing_but_get_is_answered(server: PageServer, method: str) -> None:
    answer, text = ask(server.link, method=method)
    assert (answer.status, text) == (501, "")


def test_the_page_goes_to_nobody_else_and_is_sent_again_when_it_has_changed(
    server: PageServer,
) -> None:
    answer, text = ask(server.link)
    assert (answer.status, text) == (200, "<p>the page</p>")
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Set-Cookie"] is None
    tag = answer.headers["ETag"]
    again, text = ask(server.link, If_None_Match=tag)
    assert (again.status, text) == (304, "")
    assert not server.seen_last.is_set()
    server.page = Page(b"<p>another</p>", last=True)
    assert ask(server.link, If_None_Match=tag)[1] == "<p>another</p>"
    assert server.seen_last.wait(5)
    token = urlsplit(server.link).query
    assert ask(server.link, path=f"/other?{token}")[0].status == 404


def test_a_port_that_another_program_has_is_refused(server: PageServer) -> None:
    with pytest.raises(SettingError, match=r"watch.port=0, a free one"):
        PageServer(server.port)


def end(*commands: Command | None) -> None:
    for command in filter(None, commands):
        with suppress(ProcessLookupError):
            command.kill()


def files(directory: Path) -> dict[str, tuple[int, int]]:
    """Size and time of everything in a directory, itself included: a file that came and went has
    changed the time."""
    every = [directory, *directory.rglob("*")]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in every}


def settled(watched: Watched) -> str:
    """The page with all records analysed."""
    page = watched.page()
    deadline = time.monotonic() + 60
    while not watched._analysis.settled:
        assert time.monotonic() < deadline
        time.sleep(0.05)
        page = watched.page()
    return page.html.decode()


def spent(sweep: StoredSweep, *shares: float) -> list[Compute]:
    last = sweep.plan.runs[0].milestones[-1]
    return [
        Compute(generations=i, training_flops=share * last, device_seconds=60.0 * i)
        for i, share in enumerate(shares)
    ]


def test_before_the_launch_the_page_says_so(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    before = files(tmp_path)
    with Watched(sweep, Scheduled({})) as watched:
        text = settled(watched)
    assert "planned and not launched yet" in text
    assert "No analysis yet: there are no records" in text
    assert files(tmp_path) == before


def test_the_page_follows_records_and_jobs_and_nothing_is_written(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path, "hardware.dollars_per_hour=3")
    first, *_ = sweep.plan.runs
    run = sweep.paths.run(first.run_id)
    submitted(run)
    reported(run, "running", 0.5, first)
    # On another machine, whose word is known by the time of its file alone.
    by = {"host": "login2", "pid": 1, "start": None}
    driver = {"version": 1, "user": "ada", "by": by, "unix_time": 1.0, "left": None, "failed": {}}
    sweep.paths.drivers.mkdir()
    write_json(sweep.paths.drivers / "1.json", driver)
    recorded(run, [(each, (0, 1, 1)) for each in spent(sweep, 0.0, 0.3)], seconds=5.0)
    jobs = Scheduled({run.run_id: Observed(status="running")})
    before = files(tmp_path)
    with Watched(sweep, jobs) as watched:
        text = settled(watched)
        assert f"0 of {len(sweep.plan.runs)} runs are done" in text
        assert "<b>ada on login2</b>" in text
        assert "job 1: evaluating for 10 min" in text
        # With what evaluation took, as the report counts it.
        assert "<b>60 s, $0.05</b>" in watched.page().html.decode()
        assert re.search(r"<svg[^>]*>", text)
        assert files(tmp_path) == before
        curves = text[text.index("Held-out reward") :]
        # 20 s later, say.
        watched._analysis._next = 0.0
        recorded(run, [(spent(sweep, 0.0, 0.3, 0.6)[-1], (2, 2, 2))])
        after = files(tmp_path)
        later = settled(watched)
        assert later[later.index("Held-out reward") :] != curves
        assert files(tmp_path) == after


def test_the_page_tells_an_end_from_an_analysis_and_an_interruption(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    claim = drive(sweep.paths.drivers)
    assert isinstance(claim, Claim)
    claim.release(130)
    for place, _ in enumerate(sweep.plan.runs[:-1]):
        ended(sweep, place)
    with Watched(sweep, Scheduled({})) as watched:
        assert "Nothing is running" in watched.page().html.decode()
        assert "mode=resume" in watched.page().html.decode()
        ended(sweep, len(sweep.plan.runs) - 1)
        claim = drive(sweep.paths.drivers)
        assert isinstance(claim, Claim)
        assert "The report is being made" in watched.page().html.decode()
        claim.release(0)
        page = watched.page()
    assert page.last
    assert "The sweep has ended" in page.html.decode()


def test_records_are_not_analysed_again_at_once(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    run = ended(sweep)
    recorded(run, [(each, (0, 1, 1)) for each in spent(sweep, 0.0, 1.0)])
    with Watched(sweep, Scheduled({})) as watched:
        settled(watched)
        moment = watched._analysis.moment
        recorded(run, [(spent(sweep, 0.0, 0.0, 1.1)[-1], (2, 2, 2))])
        watched.page()
        assert watched._analysis._process is None
        assert watched._analysis.moment == moment


def test_what_cannot_be_analysed_is_said_beside_what_was(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    recorded(ended(sweep), [(each, (0, 1, 1)) for each in spent(sweep, 0.0, 1.0)])
    with Watched(sweep, Scheduled({})) as watched:
        figures = settled(watched).count("<svg")
        sweep.paths.plan.write_text("{")
        watched._analysis._of, watched._analysis._next = (), 0.0
        text = settled(watched)
    assert "The newest records could not be analysed: " in text
    assert text.count("<svg") == figures > 0


def test_what_others_wrote_is_text_on_the_page(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path)
    failed = submitted(sweep.paths.run(sweep.plan.runs[0].run_id))
    close(failed, "failed", "RuntimeError: <b>bold")
    with Watched(sweep, Scheduled({})) as watched:
        text = settled(watched)
    assert "<b>bold" not in text
    assert "&lt;b&gt;bold" in text


def test_a_port_out_of_range_is_refused(tmp_path: Path) -> None:
    assert "watch.port=70000" in refused("mode=watch", "watch.port=70000", cwd=tmp_path)


def test_a_running_sweep_is_watched_until_it_has_ended(tmp_path: Path) -> None:
    sweep = Command("budget=6.4e9", *SMALL, *QUIET, cwd=tmp_path, output=tmp_path / "sweep")
    watch = None
    try:
        wait_until_some_run_trains(tmp_path)
        watch = Command("mode=watch", cwd=tmp_path, output=tmp_path / "watch")
        wait_for(lambda: "ssh -L" in watch.written)
        found = re.search(r"^watch: (\S+)", watch.written, re.M)
        assert found is not None
        link = found[1]
        assert f"ssh -L {urlsplit(link).port}:127.0.0.1:" in watch.written

        def shows(wanted: str) -> Callable[[], bool]:
            return lambda: wanted in ask(link)[1]

        wait_for(shows("of 2 runs are done"), pause=0.2)
        wait_for(shows("<svg"), pause=0.2)
        assert sweep.wait(120) == 0
        wait_for(shows(">last<"), pause=0.2)
        assert watch.wait(20) == 0
        assert "the sweep has ended: 2 runs: 2 done" in watch.written
    finally:
        end(sweep, watch)


def test_a_sweep_that_had_ended_is_shown_until_ctrl_c(straight: Path, tmp_path: Path) -> None:
    before = files(straight / "sweeps")
    watch = Command("mode=watch", cwd=straight, output=tmp_path / "watch")
    try:
        wait_for(lambda: "Ctrl-C" in watch.written)
        found = re.search(r"^watch: (\S+)", watch.written, re.M)
        assert found is not None
        link = found[1]
        wait_for(lambda: ">last<" in ask(link)[1], pause=0.2)
        text = ask(link)[1]
        assert "The sweep has ended: 2 of 2 runs are done." in text
        assert text.count("<svg") == 2
        watch.send_signal(signal.SIGINT)
        assert watch.wait(60) == 0
    finally:
        end(watch)
    assert files(straight / "sweeps") == before
