"""As much of a W&B server as its client asks for: what it was sent of runs, by their ids.

Rows of a history have an offset and replace those from there on, as W&B's file stream has it.
"""

import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_PROJECT = {"id": "1", "name": "isosweep", "entity": {"id": "1", "name": "me"}}
_VIEWER = {"id": "1", "username": "me", "entity": "me", "flags": "{}", "teams": {"edges": []}}


@dataclass
class Sent:
    """What the server holds of a run; `said`: displayName, groupName, jobType, notes."""

    key: str = ""
    said: dict[str, str] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    lines: dict[int, dict[str, Any]] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    exit_code: int | None = None

    @property
    def values(self) -> dict[str, Any]:
        """The config's."""
        return {name: of["value"] for name, of in self.config.items()}

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Of its history, in their order."""
        return [self.lines[at] for at in sorted(self.lines)]

    @property
    def steps(self) -> list[int]:
        return [row["_step"] for row in self.rows]

    def points(self, metric: str) -> list[tuple[int, float, Any]]:
        """Step, Unix time and value."""
        found = (row for row in self.rows if metric in row)
        return [(row["_step"], row["_timestamp"], row[metric]) for row in found]

    def bucket(self) -> dict[str, Any]:
        """What W&B's client asks of a run."""
        tail = json.dumps([json.dumps(row) for row in self.rows[-1:]])
        return {
            **{"id": self.key, "name": self.key, "project": _PROJECT, "sweepName": None},
            "displayName": self.said.get("displayName", self.key),
            **{"summaryMetrics": json.dumps(self.summary), "config": json.dumps(self.config)},
            **{"historyLineCount": len(self.lines), "eventsLineCount": 0, "logLineCount": 0},
            **{"historyTail": tail, "eventsTail": "[]", "tags": [], "wandbConfig": '{"t": 1}'},
        }


class WandbServer:
    """Listens on a port of this machine until `close`."""

    def __init__(self) -> None:
        self.runs: dict[str, Sent] = {}
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
                stream = re.search(r"/files/[^/]+/[^/]+/([^/]+)/file_stream", self.path)
                self._answer(server.streamed(stream[1], body) if stream else server.query(body))

            def do_PUT(self) -> None:
                self._answer({})

            def _answer(self, answer: Any) -> None:
                text = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def streamed(self, key: str, body: dict[str, Any]) -> dict[str, Any]:
        """Keep what a run's file stream holds."""
        run, files = self.runs[key], body.get("files") or {}
        if history := files.get("wandb-history.jsonl"):
            for at, line in enumerate(history["content"], history["offset"]):
                run.lines[at] = json.loads(line)
        if summary := files.get("wandb-summary.json"):
            run.summary = json.loads(summary["content"][-1])
        run.exit_code = body.get("exitcode", run.exit_code)
        return {}

    def query(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer a query or mutation of GraphQL's."""
        given = body.get("variables") or {}
        query = body.get("query", "")
        data: dict[str, Any] = {"viewer": _VIEWER}
        if "UpsertBucket" in query:
            inserted = given["name"] not in self.runs
            run = self.runs.setdefault(given["name"], Sent(given["name"]))
            names = ("displayName", "groupName", "jobType", "notes")
            run.said |= {name: given[name] for name in names if given.get(name)}
            run.config = json.loads(given.get("config") or "null") or run.config
            data = {"upsertBucket": {"bucket": run.bucket(), "inserted": inserted}}
        elif "RunResumeStatus" in query:
            known = self.runs.get(given["name"])
            data = {"model": _PROJECT | {"bucket": known and known.bucket()}}
        elif "CreateRunFiles" in query:
            self.runs[given["run"]].files += given["files"]
            urls = [{"name": f, "uploadUrl": f"{self.url}/put/{f}"} for f in given["files"]]
            made = {"runID": given["run"], "uploadHeaders": [], "files": urls}
            data = {"createRunFiles": made}
        return {"data": data}
