"""What two processes of one run say to each other: messages with tensors, and weights in memory
that both see. Neither has a name that another process could open."""

import hashlib
import json
import mmap
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch
from safetensors.torch import load, save

from isosweep.files import JsonObject

# Bytes of the JSON and of the tensors that follow.
_HEAD = struct.Struct("!QQ")
# Between two looks at whether the other process is there.
_LOOK_S = 0.2


class Message(NamedTuple):
    """Plain values, and tensors by name."""

    said: JsonObject
    tensors: dict[str, Any]


class Channel:
    """One end of a socket pair. Raises EOFError where the other process is gone, and TimeoutError.

    `there`: whether the other process lives. One that it started may hold its end open.
    """

    def __init__(self, end: socket.socket, there: Callable[[], bool] = lambda: True) -> None:
        self._end, self._there = end, there
        end.setblocking(False)

    def send(
        self,
        said: JsonObject,
        tensors: Mapping[str, Any] | None = None,
        *,
        seconds: float | None = None,
    ) -> None:
        """Send a message, within so many seconds."""
        plain = {name: value.contiguous().cpu() for name, value in (tensors or {}).items()}
        # safetensors keeps no order of names.
        text = json.dumps({"said": said, "names": list(plain)}).encode()
        content = save(plain) if plain else b""
        deadline = None if seconds is None else time.monotonic() + seconds
        for part in (_HEAD.pack(len(text), len(content)), text, content):
            left = memoryview(part)
            while left:
                self._wait(deadline, writing=True)
                try:
                    left = left[self._end.send(left) :]
                except (BrokenPipeError, ConnectionResetError):
                    raise EOFError from None

    def receive(self, seconds: float | None = None) -> Message:
        """The next message, within so many seconds."""
        deadline = None if seconds is None else time.monotonic() + seconds
        text, content = _HEAD.unpack(self._read(_HEAD.size, deadline))
        document = json.loads(bytes(self._read(text, deadline)))
        tensors = load(bytes(self._read(content, deadline))) if content else {}
        return Message(document["said"], {name: tensors[name] for name in document["names"]})

    def close(self) -> None:
        """Let the other process see the end."""
        self._end.close()

    def _read(self, count: int, deadline: float | None) -> bytearray:
        read = bytearray(count)
        left = memoryview(read)
        while left:
            self._wait(deadline, writing=False)
            try:
                came = self._end.recv_into(left)
            except ConnectionResetError:
                came = 0
            if not came:
                raise EOFError
            left = left[came:]
        return read

    def _wait(self, deadline: float | None, *, writing: bool) -> None:
        """Return once the socket takes, or has, something."""
        own = [self._end]
        while True:
            # Looked at first: what a process said before it ended is still read.
            there = self._there()
            reads, writes = ([], own) if writing else (own, [])
            if any(select.select(reads, writes, [], _LOOK_S if there else 0.0)):
                return
            if not there:
                raise EOFError
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError


class SharedWeights:
    """Trained weights in anonymous memory, which processes that are given `fd` share."""

    def __init__(self, model: Any, fd: int) -> None:
        """Those of `model`, which has the same ones in each process."""
        self._own = [each for each in model.parameters() if each.requires_grad]
        size = sum(each.numel() * each.element_size() for each in self._own)
        os.ftruncate(fd, size)
        memory = mmap.mmap(fd, size)
        self._shared: list[Any] = []
        start = 0
        for each in self._own:
            flat = torch.frombuffer(memory, dtype=each.dtype, count=each.numel(), offset=start)
            self._shared.append(flat.view(each.shape))
            start += each.numel() * each.element_size()
        self.layout = _digest((str(each.dtype), *each.shape) for each in self._own)

    def put(self) -> None:
        """Copy the model's weights into the memory."""
        _copy(self._own, self._shared)

    def take(self) -> None:
        """Copy the memory's into the model."""
        _copy(self._shared, self._own)


def _copy(source: list[Any], target: list[Any]) -> None:
    with torch.no_grad():
        for a, b in zip(source, target, strict=True):
            b.copy_(a)


def _digest(shapes: Iterable[tuple[Any, ...]]) -> str:
    return hashlib.sha256(repr([*shapes]).encode()).hexdigest()
