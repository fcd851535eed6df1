"""Three wires for one machine, with nothing behind them: which one should carry steps?

    python -m benchmarks.wires [--round-trips 2000]

Each row is a round trip of the sizes of a published step (157 KB up and down) with a server in a
process of its own; both processes deal with memory as the product does, and the wires take turns in
one run. Each wire ends in bytes that belong to who reads them. That matters for shared memory: its
other side could change numbers after they were checked, so they too have to be copied before
anything looks at them.
"""

from __future__ import annotations

import argparse
import mmap
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from struct import Struct
from typing import Final

from benchmarks.echo import echo
from benchmarks.rows import ROOT, Work, about, print_row, summary, timed
from curator.system.tune_process import tune_process

_UP: Final = 50 * 28 * 28 * 4 + 50 * 8
_DOWN: Final = 50 * 28 * 28 * 4
_LENGTH: Final = Struct("<I")
_SLOT: Final = 1 << 18  # bytes of shared memory; of two slots one is for each way
_BUFFER: Final = 1 << 20
_IN_A_ROW: Final = 50

Ends = tuple[Callable[[bytes], None], Callable[[], bytes]]


def _send(connection: socket.socket, data: bytes) -> None:
    header = _LENGTH.pack(len(data))
    sent = connection.sendmsg((header, data))
    if sent < len(header) + len(data):
        connection.sendall(memoryview(header + data)[sent:])


def _receive(connection: socket.socket) -> bytes:
    """Return one message.

    Raises:
        EOFError: If the other side has gone.
    """
    header = connection.recv(_LENGTH.size, socket.MSG_WAITALL)
    if not header:
        raise EOFError
    return connection.recv(_LENGTH.unpack(header)[0], socket.MSG_WAITALL)


def _raw(connection: socket.socket) -> Ends:
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        connection.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
    return lambda data: _send(connection, data), lambda: _receive(connection)


def _shared(connection: socket.socket, memory: mmap.mmap, *, is_server: bool) -> Ends:
    """Return how to send and receive where only lengths go over the socket: the doorbell."""
    out, into = (_SLOT, 0) if is_server else (0, _SLOT)

    def send(data: bytes) -> None:
        memory[out : out + len(data)] = data
        connection.send(_LENGTH.pack(len(data)))

    def receive() -> bytes:
        rang = connection.recv(_LENGTH.size)
        if not rang:
            raise EOFError
        return memory[into : into + _LENGTH.unpack(rang)[0]]  # a copy

    return send, receive


def _mapped(path: Path) -> mmap.mmap:
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), 2 * _SLOT)


@contextmanager
def _client(folder: Path, *, is_shared: bool) -> Iterator[Work]:
    """Start a server and give one round trip."""
    place, ring = folder / "s.sock", folder / "ring"
    ring.write_bytes(bytes(2 * _SLOT))
    kind = "shared" if is_shared else "raw"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen(1)
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.wires", "--serve", kind, str(folder)], cwd=ROOT
        )
        connection, _ = listener.accept()
    message = os.urandom(_UP)
    if is_shared:
        send, receive = _shared(connection, _mapped(ring), is_server=False)
    else:
        send, receive = _raw(connection)

    def round_trip() -> object:
        send(message)
        return receive()

    with connection:
        yield round_trip
    process.wait(30)


def _serve(kind: str, folder: Path) -> None:
    reply = os.urandom(_DOWN)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(folder / "s.sock"))
        if kind == "shared":
            send, receive = _shared(connection, _mapped(folder / "ring"), is_server=True)
        else:
            send, receive = _raw(connection)
        try:
            while True:
                receive()
                send(reply)
        except EOFError:
            return


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--round-trips", type=int, default=2000)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    tune_process()
    if arguments.serve:
        _serve(arguments.serve[0], Path(arguments.serve[1]))
        return
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a folder in memory
    with ExitStack() as stack:

        def folder() -> Path:
            made = tempfile.TemporaryDirectory(dir=memory)
            return Path(stack.enter_context(made))

        address = f"unix:{folder()}/e.sock"
        works: dict[str, Work] = {
            "raw framed socket": stack.enter_context(_client(folder(), is_shared=False)),
            "shared memory, doorbell": stack.enter_context(_client(folder(), is_shared=True)),
            "grpcio stream": stack.enter_context(echo(address, bytes(_UP), _DOWN, reads=False)),
        }
        for work in works.values():
            for _ in range(50):
                work()
        seconds = timed(works, arguments.round_trips // _IN_A_ROW, _IN_A_ROW)
    shared = statistics.median(seconds["shared memory, doorbell"])
    for name, values in seconds.items():
        print_row(
            **about(),
            benchmark="wires",
            what=name,
            **summary(values),
            times_shared_memory=round(statistics.median(values) / shared, 3),
            bytes_up=_UP,
            bytes_down=_DOWN,
            round_trips=arguments.round_trips,
        )


if __name__ == "__main__":
    main()
