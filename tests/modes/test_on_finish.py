"""`launcher.on_finish` is run when a sweep ends, and what goes wrong with it is one line."""

import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from isosweep.modes.on_finish import Finish, on_finish

FINISH = Finish(
    sweep_dir="/data/my sweeps/a'b", status="failed", report="/r.html", done=3, failed=1
)


@pytest.fixture
def hook() -> Iterator[tuple[str, list[tuple[str, dict[str, object]]]]]:
    """The address of a server that keeps what it is sent, and refuses what comes to /refuse."""
    got: list[tuple[str, dict[str, object]]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            got.append((self.path, json.loads(self.rfile.read(length))))
            self.send_response(403 if self.path.startswith("/refuse") else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", got
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_command_is_given_what_it_names_each_as_one_word(tmp_path: Path) -> None:
    command = (
        f"printf '%s\\n' {{sweep_dir}} {{status}} {{report}} {{done}}/{{failed}} "
        f"\"$(echo x | awk '{{print $1}}')\" > {tmp_path}/told"
    )
    assert on_finish(command, FINISH) is None
    told = (tmp_path / "told").read_text().splitlines()
    assert told == ["/data/my sweeps/a'b", "failed", "/r.html", "3/1", "x"]


def test_an_address_is_sent_the_same_as_json(
    hook: tuple[str, list[tuple[str, dict[str, object]]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, got = hook
    monkeypatch.setenv("HOOK_TOKEN", "secret")
    assert on_finish(f"{address}/hooks/$HOOK_TOKEN", FINISH) is None
    assert got == [("/hooks/secret", asdict(FINISH))]


def test_what_goes_wrong_is_one_line_without_the_secrets_of_an_address(
    hook: tuple[str, list[tuple[str, dict[str, object]]]],
) -> None:
    address, _ = hook
    refused = on_finish(f"{address}/refuse/secret", FINISH)
    assert refused == "launcher.on_finish: http://127.0.0.1 answers 403"
    for broken in (
        "http://user:secret@127.0.0.1:9/secret",
        "http://127.0.0.1:secret/",
        "https://no.such.host.invalid/secret?key=secret",
        "http://[secret",
    ):
        said = on_finish(broken, FINISH, timeout_s=5)
        assert said is not None
        assert "secret" not in said
        assert "\n" not in said


def test_a_command_that_fails_or_hangs_is_reported_and_ended() -> None:
    said = on_finish("echo first; echo 'no such channel' >&2; exit 3", FINISH)
    assert said == "launcher.on_finish: exit status 3: no such channel"
    assert on_finish("sleep 30", FINISH, timeout_s=0.3) == "launcher.on_finish: no end after 0.3 s"
    assert on_finish(None, FINISH) is None
