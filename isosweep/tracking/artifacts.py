"""Files that a run has in MLflow: written here, or sent to the server that keeps them.

MLflow's own way to write them here writes to what a link leads to, and takes a file's mode along.
"""

import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from isosweep.files import open_plain, write_bytes
from isosweep.reserved import ARTIFACTS


@dataclass(frozen=True)
class Artifacts:
    """Those of one run of a store; `beside`: the one directory for them, where that is known;
    `shared`: others may write in the store, and so say where its artifacts lie."""

    client: Any
    mlflow_id: str
    beside: Path | None
    shared: bool

    def add(self, file: Path, folder: str = "") -> None:
        """Replace `folder`/NAME by what `file` holds, which is no link. Raises as the store does,
        and OSError."""
        with open(file, "rb", opener=open_plain) as opened:
            self.put(str(PurePosixPath(folder, file.name)), opened.read())

    def put(self, name: str, content: bytes) -> None:
        """Replace `name`, which may have folders, by `content`; raises as `add` does."""
        place = self._place()
        if place is not None:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(place / name, content, sync=False)
            return
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, Path(name).name)
            path.write_bytes(content)
            folder = str(PurePosixPath(name).parent)
            self.client.log_artifact(self.mlflow_id, str(path), None if folder == "." else folder)

    def _place(self) -> Path | None:
        """The run's directory on this machine; None where a server keeps it.

        Raises PermissionError where somebody else may have said which it is, and it is none of
        this store's.
        """
        address = self.client.get_run(self.mlflow_id).info.artifact_uri
        parts = urlsplit(address)
        place = Path(unquote(parts.path)) if parts.scheme in ("", "file") else None
        if self.shared and not self._is_ours(place):
            said = "artifacts: others may have written that they lie in"
            raise PermissionError(f"{said} {address}; remove that run from the store")
        return place

    def _is_ours(self, place: Path | None) -> bool:
        if place is None or place.parts[-3:] != (ARTIFACTS, self.mlflow_id, "artifacts"):
            return False
        if self.beside is None or place.parents[1] == self.beside:
            return True
        # Hosts may call one directory by several names.
        with suppress(FileNotFoundError):
            return place.parents[1].samefile(self.beside)
        return False
