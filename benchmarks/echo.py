"""A bare gRPC stream of the same sizes: what the transport would cost with nothing behind it.

The server has the curator's options and threads; a message up is answered by constant bytes.

    python -m benchmarks.echo ADDRESS REPLY_BYTES [CERTIFICATE KEY AUTHORITY]
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

import grpc

from benchmarks.rows import ROOT
from curator.identity.listen import TlsFiles

_METHOD = "/echo/Stream"
_OPTIONS = [
    ("grpc.max_receive_message_length", 1 << 28),
    ("grpc.max_send_message_length", 1 << 28),
]


@contextmanager
def echo(
    address: str, message: bytes, reply_bytes: int, tls: TlsFiles | None = None
) -> Iterator[Callable[[], bytes]]:
    """Start an echo in a process of its own and return one round trip.

    Args:
        address: HOST:PORT or unix:/path.
        message: What goes up, made anew from its parts at every step by the product.
        reply_bytes: What comes down.
        tls: Of a curator, for TLS.
    """
    files = [] if tls is None else [str(tls.certificate), str(tls.key), str(tls.authority)]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.echo", address, str(reply_bytes), *files],
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
    replies = channel.stream_stream(_METHOD)(iter(requests.get, None))

    def round_trip() -> bytes:
        requests.put(message)
        reply: bytes = next(replies)
        return reply

    try:
        yield round_trip
    finally:
        requests.put(None)
        channel.close()
        process.terminate()
        process.wait(30)


def _serve(address: str, reply_bytes: int, tls: TlsFiles | None) -> None:
    reply = os.urandom(reply_bytes)

    def answer(requests: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
        for _request in requests:
            yield reply

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


if __name__ == "__main__":
    paths = [Path(name) for name in sys.argv[3:]]
    _serve(
        sys.argv[1],
        int(sys.argv[2]),
        TlsFiles(certificate=paths[0], key=paths[1], authority=paths[2]) if paths else None,
    )
