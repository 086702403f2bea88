"""What two processes of one run say to each other: messages with tensors, and weights in memory
that both see. Neither has a name that another process could open."""

import hashlib
import json
import math
import mmap
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
        self._end, self.there = end, there
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
        ready([self], deadline, writing=writing)

    def fileno(self) -> int:
        """The socket's, for `select`."""
        return self._end.fileno()


def ready(channels: Sequence[Channel], deadline: float | None, *, writing: bool = False) -> Channel:
    """The first of `channels`, whose other ends share a fate, that takes, or has, something.

    Raises EOFError and TimeoutError as they do.
    """
    while True:
        # Looked at first: what a process said before it ended is still read.
        there = channels[0].there()
        reads, writes = ([], channels) if writing else (channels, [])
        found = select.select(reads, writes, [], _LOOK_S if there else 0.0)
        if any(found):
            first: Channel = (found[0] or found[1])[0]
            return first
        if not there:
            raise EOFError
        if deadline is not None and time.monotonic() > deadline:
            raise TimeoutError


class SharedWeights:
    """Trained weights in anonymous memory, which processes that are given `fd` share."""

    def __init__(self, model: Callable[[], Any], fd: int | None) -> None:
        """Those of what `model` gives, which has the same ones in each process, and may come to be
        sharded later; without `fd` this process only helps to gather them."""
        self._model = model
        sizes = [(each.dtype, getattr(each, "ds_shape", each.shape)) for each in self._own]
        self.layout = _digest((str(dtype), *shape) for dtype, shape in sizes)
        self._shared: list[Any] | None = None
        if fd is not None:
            self._shared = _views(fd, sizes)

    def put(self) -> None:
        """Copy the model's weights into the memory; to be called by all processes that train."""
        with torch.no_grad():
            for at, each in enumerate(self._own):
                with whole(each) as weight:
                    if self._shared is not None:
                        self._shared[at].copy_(weight)

    def take(self) -> None:
        """Copy the memory's into the model, which is whole."""
        assert self._shared is not None
        with torch.no_grad():
            for weight, shared in zip(self._own, self._shared, strict=True):
                weight.copy_(shared)

    @property
    def _own(self) -> list[Any]:
        return [each for each in self._model().parameters() if each.requires_grad]


@contextmanager
def whole(weight: Any) -> Iterator[Any]:
    """A parameter with all its elements, which FSDP may share between processes."""
    if hasattr(weight, "full_tensor"):
        yield weight.full_tensor()
    else:
        yield weight


def _views(fd: int, sizes: Sequence[tuple[torch.dtype, Any]]) -> list[Any]:
    """Tensors of these types and shapes, one after the other in the memory of `fd`."""
    counts = [math.prod(shape) for _, shape in sizes]
    total = sum(n * dtype.itemsize for n, (dtype, _) in zip(counts, sizes, strict=True))
    os.ftruncate(fd, total)
    memory, start, views = mmap.mmap(fd, total), 0, []
    for count, (dtype, shape) in zip(counts, sizes, strict=True):
        flat = torch.frombuffer(memory, dtype=dtype, count=count, offset=start)
        views.append(flat.view(shape))
        start += count * dtype.itemsize
    return views


def _digest(shapes: Iterable[tuple[Any, ...]]) -> str:
    return hashlib.sha256(repr([*shapes]).encode()).hexdigest()
