"""A bare gRPC stream of the same sizes: what the transport would cost with nothing behind it.

The server has the curator's options and threads; a message up is answered by constant bytes. An
echo that `reads` also does, without protobuf or checks of anybody, what no barrier can leave out:
copy and bound the pixels, narrow the integers, and make floats of them.

    python -m benchmarks.echo ADDRESS REPLY_BYTES bare|reads [CERTIFICATE KEY AUTHORITY]
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from benchmarks.rows import ROOT
from curator.identity.listen import TlsFiles

_METHOD = "/echo/Stream"
_READS = {False: "bare", True: "reads"}
_OPTIONS = [
    ("grpc.max_receive_message_length", 1 << 28),
    ("grpc.max_send_message_length", 1 << 28),
]


@contextmanager
def echo(
    address: str, message: bytes, reply_bytes: int, tls: TlsFiles | None = None, *, reads: bool
) -> Iterator[Callable[[], object]]:
    """Start an echo in a process of its own and return one round trip.

    Args:
        address: HOST:PORT or unix:/path.
        message: What goes up, made anew from its parts at every step by the product.
        reply_bytes: What comes down.
        tls: Of a curator, for TLS.
        reads: Whether both sides look at what they get.
    """
    files = [] if tls is None else [str(tls.certificate), str(tls.key), str(tls.authority)]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.echo", address, str(reply_bytes), _READS[reads], *files],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    line = process.stdout.readline().strip() if process.stdout is not None else ""
    target = address if address.startswith("unix:") else f"localhost:{line}"
    if tls is None:
        channel = grpc.insecure_channel(target, options=_OPTIONS)
    else:
        trust = grpc.ssl_channel_credentials(tls.authority.read_bytes())
        channel = grpc.secure_channel(target, trust, options=_OPTIONS)
    requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    answers: Any = channel.stream_stream(_METHOD, None, None)(iter(requests.get, None))
    replies: Iterator[bytes] = answers

    pixels = np.frombuffer(message[: len(message) // 4 * 4], "<f4").copy()

    def round_trip() -> object:
        requests.put(pixels.tobytes() if reads else message)
        reply = next(replies)
        if not reads:
            return reply
        numbers, gradient = np.frombuffer(reply, "<i4"), np.empty(reply_bytes // 4, np.float32)
        return np.multiply(numbers, 1e-6, out=gradient, dtype=np.float64, casting="unsafe")

    try:
        yield round_trip
    finally:
        requests.put(None)
        channel.close()
        process.terminate()
        process.wait(30)


def _serve(address: str, reply_bytes: int, tls: TlsFiles | None, *, reads: bool) -> None:
    reply = os.urandom(reply_bytes)
    integers = np.frombuffer(reply, "<i4").astype(np.int64)

    def answer(requests: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
        for request in requests:
            yield _narrowed(request, integers) if reads else reply

    handler = grpc.stream_stream_rpc_method_handler(answer)
    server = grpc.server(ThreadPoolExecutor(16), options=_OPTIONS)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("echo", {"Stream": handler}),)
    )
    if tls is None:
        port = server.add_insecure_port(address)
    else:
        pair = (tls.key.read_bytes(), tls.certificate.read_bytes())
        port = server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


def _narrowed(request: bytes, integers: np.ndarray) -> bytes:
    """Look at a request as the barrier must, and return integers as they leave it.

    Raises:
        ValueError: If a pixel is out of range.
    """
    pixels = np.frombuffer(request, "<f4").copy()
    if not (pixels.min() >= -1 and pixels.max() <= 1):
        raise ValueError
    fits = int(integers.min()) >= -(2**31) and int(integers.max()) < 2**31
    return integers.astype("<i4" if fits else "<i8").tobytes()


if __name__ == "__main__":
    paths = [Path(name) for name in sys.argv[4:]]
    _serve(
        sys.argv[1],
        int(sys.argv[2]),
        TlsFiles(certificate=paths[0], key=paths[1], authority=paths[2]) if paths else None,
        reads=sys.argv[3] == _READS[True],
    )
