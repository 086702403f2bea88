"""One page on this machine, for whoever has its link: others reach the port as well.

The token is in the link alone. A cookie would be sent to every port of 127.0.0.1, those of other
users too.
"""

import re
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from isosweep.errors import SettingError

HOST: Final = "127.0.0.1"
# Names of this machine, and of the near end of a tunnel, whatever its port: another name that
# resolves here belongs to a page from elsewhere (DNS rebinding).
_HERE: Final = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?", re.ASCII)
_CLOSED: Final = b"This page opens by the link that isosweep mode=watch has printed.\n"
_HEADERS: Final = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    # The token is in the address, and a page on a disk outlives it.
    "Cache-Control": "no-store",
}
# A reader that stops in the middle of a request is let go. Seconds.
_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True)
class Page:
    """HTML, and whether it is the last one that will be shown."""

    html: bytes
    last: bool = False

    @property
    def tag(self) -> str:
        """Changes with the page: its ETag."""
        return f'"{sha256(self.html).hexdigest()[:32]}"'


class PageServer:
    """Serves the newest page; `nonce` marks the script that the page may execute.

    `seen_last` is set once somebody has got the last page.
    """

    def __init__(self, port: int) -> None:
        """Raises SettingError for a port that cannot be had."""
        self.nonce, self._token = secrets.token_urlsafe(16), secrets.token_urlsafe(32)
        self.seen_last = threading.Event()
        self.page = Page(b"")
        try:
            self._server = _Server((HOST, port), _Handler)
        except OSError as error:
            rule = f"cannot be served on ({error.strerror})"
            raise SettingError("watch.port", port, rule, "watch.port=0, a free one") from None
        self._server.owner = self

    @property
    def port(self) -> int:
        """The port, which is free to choose where 0 was asked for."""
        return int(self._server.server_address[1])

    @property
    def link(self) -> str:
        """The page's address, with the token."""
        return f"http://{HOST}:{self.port}/?token={self._token}"

    def knows(self, token: str) -> bool:
        """Whether it is the token of the link."""
        return secrets.compare_digest(token.encode(), self._token.encode())

    @contextmanager
    def serving(self) -> Iterator["PageServer"]:
        """Answer until the end of the block."""
        thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True
        )
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # A port that was asked for is taken while another program has it, and free right after.
    allow_reuse_address = True
    owner: PageServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a reader that has gone away is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _TIMEOUT_S

    def do_GET(self) -> None:
        owner, address = self.server.owner, urlsplit(self.path)
        token = parse_qs(address.query).get("token", [""])[0]
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not _HERE.fullmatch(hosts[0]) or not owner.knows(token):
            self._answer(403, _CLOSED)
        elif address.path != "/":
            self._answer(404, b"There is one page here: /\n")
        else:
            self._show(owner.page)

    def _show(self, page: Page) -> None:
        nonce = self.server.owner.nonce
        headers = {
            "ETag": page.tag,
            "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
            f"script-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'",
        }
        if self.headers.get("If-None-Match") == page.tag:
            self._answer(304, b"", headers)
        else:
            self._answer(200, page.html, headers, kind="text/html")
        if page.last:
            self.server.owner.seen_last.set()

    def _answer(
        self,
        status: int,
        body: bytes,
        headers: Mapping[str, str] = MappingProxyType({}),
        kind: str = "text/plain",
    ) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Other methods than GET, and what is no request: the status alone."""
        self._answer(code, b"")

    def version_string(self) -> str:
        """No version: of no use to who may see the page."""
        return "isosweep"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing: the address has the token."""
