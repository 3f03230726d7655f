"""Open sessions with their memory, and the service that streams memory."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import itertools
import os
import sys
import threading
import traceback
from typing import Any, Callable, Iterator, TypeVar

import grpc
import numpy as np

from . import _protocol
from .errors import Cancelled, OutOfMemory, Unsupported
from .memory import Kind, Layout, Memory, Tensor, attach

CHUNK = 1 << 20  # elements of a section or an output in one message: 4 MiB
MAX_ERROR = 4 << 10  # bytes of a message: gRPC carries it in a header, and the limit for headers is 8 KiB

T = TypeVar("T")


def abort(context: grpc.ServicerContext, e: BaseException) -> None:
    """Ends a call with an error; does not return."""
    code = grpc.StatusCode.UNKNOWN
    message = str(e)
    if isinstance(e, (OutOfMemory, MemoryError)):
        code = grpc.StatusCode.RESOURCE_EXHAUSTED
        message = message or "out of memory"
    elif isinstance(e, (Unsupported, NotImplementedError)):
        code = grpc.StatusCode.UNIMPLEMENTED
        message = message or "not supported"
    elif isinstance(e, (Cancelled, grpc.RpcError)):
        code, message = grpc.StatusCode.CANCELLED, "the call was cancelled"
    elif not isinstance(e, ValueError):
        _print(e)
        code, message = grpc.StatusCode.INTERNAL, f"{type(e).__name__}: {e}"
    if len(message.encode()) > MAX_ERROR:
        message = message.encode()[:MAX_ERROR].decode(errors="ignore") + " ..."
    context.abort(code, message)


def _print(e: BaseException) -> None:
    """Prints where an exception comes from, without the frames of this package and of the thread pools that it uses."""
    frames = traceback.extract_tb(e.__traceback__)
    others = (os.path.dirname(__file__), os.path.dirname(concurrent.futures.__file__))
    own = [f for f in frames if os.path.dirname(f.filename) not in others]
    lines = traceback.format_list(own or frames) + traceback.format_exception_only(type(e), e)
    print("Traceback (most recent call last):", "".join(lines), sep="\n", end="", file=sys.stderr, flush=True)


def answering(f: Callable[..., T]) -> Callable[..., T]:
    """A unary call whose exceptions become its status."""

    def answer(request: Any, context: grpc.ServicerContext) -> T:
        try:
            return f(request, context)
        except Exception as e:
            abort(context, e)
            raise

    return answer


def streaming(f: Callable[..., Iterator[T]]) -> Callable[..., Iterator[T]]:
    """A call with a stream of answers whose exceptions become its status."""

    def answer(request: Any, context: grpc.ServicerContext) -> Iterator[T]:
        try:
            yield from f(request, context)
        except Exception as e:
            abort(context, e)

    return answer


@dataclasses.dataclass
class Entry:
    """An open session. All of the plugin's own code for it runs on one thread, as some libraries and devices require."""

    thread: concurrent.futures.ThreadPoolExecutor
    memory: Memory
    session: Any = None
    busy: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def run(self, f: Callable[..., T], *args: Any) -> T:
        return self.thread.submit(f, *args).result()

    def __enter__(self) -> Entry:
        return self

    def __exit__(self, *_: object) -> None:
        self.busy.release()


class Sessions:
    """The sessions of a process."""

    def __init__(self, arena: int | None):
        self._arena = arena
        self._mutex = threading.Lock()
        self._numbers = itertools.count(1)
        self._entries: dict[int, Entry] = {}

    def open(self, memory: Any, sections: int, open: Callable[[Memory], Any]) -> int:
        """Makes memory for a session, opens it on its thread, and returns its number."""
        layout = Layout(Tensor(t.name, tuple(t.shape), Kind(t.kind)) for t in memory.tensors)
        entry = Entry(concurrent.futures.ThreadPoolExecutor(1, "session"), attach(layout, list(memory.offsets), sections, self._arena))
        try:
            entry.session = entry.run(open, entry.memory)
        except BaseException:
            entry.thread.shutdown(wait=False)
            raise
        with self._mutex:
            number = next(self._numbers)
            self._entries[number] = entry
        return number

    def acquire(self, number: int, context: grpc.ServicerContext) -> Entry:
        """Waits until no other call of the session is running. `with` releases it."""
        with self._mutex:
            entry = self._entries.get(number)
        while entry and not entry.busy.acquire(timeout=0.1):
            if not context.is_active():
                raise Cancelled
        if entry and entry.session is None:  # closed while this call waited
            entry.busy.release()
            entry = None
        if entry is None:
            raise ValueError(f"no session has the number {number}: it was closed, or never opened")
        return entry

    def close(self, number: int, context: grpc.ServicerContext) -> None:
        with self.acquire(number, context) as entry:
            with self._mutex:
                del self._entries[number]
            try:
                entry.run(entry.session.close)
            finally:
                entry.thread.shutdown(wait=False)
                entry.session = entry.memory = None

    def service(self) -> grpc.GenericRpcHandler:
        """Sections: moves memory that is not shared, and waits for calls to end."""

        def push(requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
            entry = None
            try:
                for chunk in requests:
                    entry = entry or self.acquire(chunk.session, context)
                    section = _section(entry, chunk.section)
                    values = np.frombuffer(chunk.values, "<f4") if len(chunk.values) % 4 == 0 else None
                    if values is None or chunk.offset + len(values) > len(section):
                        raise ValueError(
                            f"chunk of {len(chunk.values)} bytes at element {chunk.offset} of section {chunk.section}, "
                            f"which has {len(section)} elements"
                        )
                    section[chunk.offset : chunk.offset + len(values)] = values
            finally:
                if entry:
                    entry.busy.release()
            return _protocol.PushResponse()

        def pull(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            with self.acquire(request.session, context) as entry:
                section = _section(entry, request.section)
                for offset, values in chunks(section):
                    yield _protocol.SectionChunk(session=request.session, section=request.section, offset=offset, values=values)

        def settle(request: Any, context: grpc.ServicerContext) -> Any:
            with self.acquire(request.session, context):
                return _protocol.SettleResponse()

        return _protocol.service("Sections", {"Push": answering(push), "Pull": streaming(pull), "Settle": answering(settle)})


def _section(entry: Entry, number: int) -> np.ndarray:
    if entry.memory.shared:
        raise ValueError("the session's memory is shared: there is nothing to send")
    if number >= len(entry.memory.sections):
        raise ValueError(f"the session has {len(entry.memory.sections)} sections, and none is number {number}")
    return entry.memory.sections[number]


def chunks(values: np.ndarray) -> Iterator[tuple[int, bytes]]:
    """Cuts a flat array into little-endian pieces that fit a message, each with the index of its first element."""
    for i in range(0, len(values), CHUNK):
        yield i, values[i : i + CHUNK].astype("<f4", copy=False).tobytes()
