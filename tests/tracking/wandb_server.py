"""As much of a W&B server as its client asks for: what it was sent of runs, by their ids.

Rows of a history have an offset and replace those from there on, as W&B's file stream has it.
"""

import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


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

    @property
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

    def points(self, metric: str) -> list[tuple[int, float]]:
        return [(row["_step"], row[metric]) for row in self.rows if metric in row]


class WandbServer:
    """Listens on a port of this machine until `close`."""

    def __init__(self) -> None:
        self.runs: dict[str, Sent] = {}
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size) or b"{}")
                stream = re.search(r"/files/[^/]+/[^/]+/([^/]+)/file_stream", self.path)
                answer = server.streamed(stream[1], body) if stream else server.query(body)
                self._answer(answer)

            def do_GET(self) -> None:
                self._answer({})

            do_PUT = do_GET  # noqa: N815

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
        run = self.runs.setdefault(key, Sent(key))
        files = body.get("files") or {}
        if history := files.get("wandb-history.jsonl"):
            for at, line in enumerate(history["content"], history["offset"]):
                run.lines[at] = json.loads(line)
        if summary := files.get("wandb-summary.json"):
            run.summary = json.loads(summary["content"][-1])
        if "exitcode" in body:
            run.exit_code = body["exitcode"]
        return {}

    def query(self, body: dict[str, Any]) -> dict[str, Any]:
        query, variables = body.get("query", ""), body.get("variables") or {}
        found = re.search(r"(?:query|mutation)\s+(\w+)", query)
        name = body.get("operationName") or (found[1] if found else "")
        return {"data": self._data(name, variables)}

    def _data(self, name: str, variables: dict[str, Any]) -> dict[str, Any]:
        match name:
            case "UpsertBucket":
                return self._upserted(variables)
            case "RunResumeStatus":
                known = self.runs.get(variables["name"])
                return {"model": _PROJECT | {"bucket": known and known.bucket}}
            case "CreateRunFiles":
                self.runs[variables["run"]].files += variables["files"]
                urls = [{"name": f, "uploadUrl": f"{self.url}/put/{f}"} for f in variables["files"]]
                made = {"runID": variables["run"], "uploadHeaders": [], "files": urls}
                return {"createRunFiles": made}
        viewer = {"id": "1", "username": "me", "entity": "me", "flags": "{}"}
        return {"viewer": viewer | {"teams": {"edges": []}}}

    def _upserted(self, variables: dict[str, Any]) -> dict[str, Any]:
        key = variables["name"]
        inserted = key not in self.runs
        run = self.runs.setdefault(key, Sent(key))
        names = ("displayName", "groupName", "jobType", "notes")
        run.said |= {name: variables[name] for name in names if variables.get(name)}
        if variables.get("config"):
            run.config = json.loads(variables["config"])
        return {"upsertBucket": {"bucket": run.bucket, "inserted": inserted}}


_PROJECT = {"id": "1", "name": "isosweep", "entity": {"id": "1", "name": "me"}}
