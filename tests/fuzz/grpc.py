"""Send malformed requests to a curator: it refuses them, charges nothing and stays small.

Over the local wire streams of steps go over the socket for steps, some of their frames broken too.

Usage: python -m tests.fuzz.grpc [--requests 50000] [--seed 1] [--wire local]
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Any

import grpc
from google.protobuf.message import DecodeError

import analyst
from analyst.client.local_steps import StepsEnded
from curator.clock import utc_now
from curator.errors import CuratorError
from curator.folder import CuratorFolder
from curator.ledger.sql_ledger import SqlLedger
from protos.weir.v1 import local_pb2, refusal_pb2, release_pb2
from tests.e2e.conftest import (
    EMBEDDING,
    SINKHORN,
    Process,
    credentials,
    digits_folder,
    socket_of,
    start_curator,
)
from tests.fuzz.mutate import SERVICE, Mutator

WARM_UP = 5000
FORBIDDEN = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNIMPLEMENTED}
SILENT = {grpc.StatusCode.RESOURCE_EXHAUSTED}  # gRPC's own: the message is too large
CHANGING = {"OpenRun", "CloseRun", "Step", "StreamSteps", "ResumeRun"}
HEADER = Struct(">BI")
LENGTH = Struct(">I")
MOST_ENTRIES = 5  # that one answered request can write


@dataclass(kw_only=True)
class Outcome:
    """What was seen."""

    codes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    steps_by_run: dict[str, set[int]] = field(default_factory=dict)


class Fuzz:
    """One caller with open runs, and a run of somebody else."""

    def __init__(
        self, folder: CuratorFolder, port: int, seed: int, steps: Path | None = None
    ) -> None:
        self.folder = folder
        self._steps = steps  # the socket for steps
        self._frames = random.Random(seed)  # noqa: S311 - a test, repeatable
        self.outcome = Outcome()
        target = f"localhost:{port}"
        with analyst.connect(target, credentials=credentials(folder, "alice")) as barrier:
            own = [
                barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=20).run_id,
                barrier.open_run("digits", "mean-embedding", EMBEDDING, num_steps=20).run_id,
            ]
        with analyst.connect(target, credentials=credentials(folder, "bob")) as barrier:
            other = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=20).run_id
        self.own = own
        self._mutator = Mutator(seed, (*own, other, "0" * 32))
        content = json.loads(credentials(folder, "alice").read_text())
        self._metadata = (("authorization", f"Bearer {content['token']}"),)
        tls = grpc.ssl_channel_credentials(content["certificate_authority"].encode())
        self.channel = grpc.secure_channel(target, tls)
        self._ledger = SqlLedger.open_reader(folder.ledger, utc_now)
        self._head = self._ledger.head()

    def close(self) -> None:
        self.channel.close()
        self._ledger.close()

    def send(self, number: int) -> None:
        """Send so many requests, and look at the ledger after each that it may not change."""
        for _ in range(number):
            method, messages = self._mutator.request()
            answers = self._ask(method, messages)
            self._look_at_the_ledger(method, messages, answers)

    def _ask(self, method: str, messages: list[bytes]) -> int:
        """Return how many answers came."""
        answers = 0
        try:
            for answer in self._call(method, messages):
                answers += 1
                if method in {"Step", "StreamSteps"}:
                    step = release_pb2.StepResponse.FromString(answer)
                    self.outcome.steps_by_run.setdefault(step.run_id, set()).add(step.step)
            self.outcome.codes["OK"] += 1
        except grpc.RpcError as error:
            self._judge(method, messages, error)
        return answers

    def _call(self, method: str, messages: list[bytes]) -> Iterator[bytes]:
        if self._steps is not None and method == "StreamSteps":
            yield from over_the_socket(self._steps, self._metadata[0][1], self._broken(messages))
            return
        channel: Any = self.channel
        call = channel.stream_stream(f"/{SERVICE.full_name}/{method}")
        yield from call(iter(messages), metadata=self._metadata, timeout=60)

    def _broken(self, messages: list[bytes]) -> bytes:
        """Return frames, half of them with rows; of ten one has another kind or another length."""
        chance, sent = self._frames, b""
        for message in messages:
            kind, data = int(local_pb2.LOCAL_FRAME_STEP), message
            if chance.random() < 0.5:
                kind, data = int(local_pb2.LOCAL_FRAME_ROWS), self._parted(message)
            length = len(data)
            if chance.random() < 0.1:
                kind = chance.choice((0, 1, 3, 77, 255))
            if chance.random() < 0.1:
                length = chance.choice((length + 1, max(0, length - 1), 0xFFFFFFFF, 0))
            sent += HEADER.pack(kind, length) + data
        return sent

    def _parted(self, encoded: bytes) -> bytes:
        """Return a message with its images beside it, one in ten with other bytes or a lie."""
        chance, rows = self._frames, b""
        with suppress(DecodeError):
            message = release_pb2.StepRequest.FromString(encoded)
            place = message.features if message.HasField("features") else message.images
            rows = place.data
            place.data = b""
            encoded = message.SerializeToString()
        if chance.random() < 0.1:
            rows = chance.choice((b"", rows[1:], rows + b"x", chance.randbytes(len(rows))))
        length = len(encoded)
        if chance.random() < 0.1:
            length = chance.choice((0, length + 1, len(rows) + length, 0xFFFFFFFF))
        return rows + encoded + LENGTH.pack(length)

    def _judge(self, method: str, messages: list[bytes], error: Any) -> None:
        code = error.code()
        self.outcome.codes[code.name] += 1
        refusal = None
        for key, value in error.trailing_metadata() or ():
            if key == "weir-refusal-bin":
                refusal = refusal_pb2.Refusal.FromString(value)
        if refusal is not None:
            self.outcome.reasons[refusal.reason] += 1
        if code in FORBIDDEN or (refusal is None and code not in SILENT):
            shown = [message[:200] for message in messages]
            self.outcome.faults.append(f"{method} {code.name} {error!r}: {shown}")

    def _look_at_the_ledger(self, method: str, messages: list[bytes], answers: int) -> None:
        head = self._ledger.head()
        allowed = MOST_ENTRIES * answers if method in CHANGING else 0
        if head[0] - self._head[0] > allowed:
            shown = [message[:200] for message in messages]
            self.outcome.faults.append(f"{method} wrote to the ledger unanswered: {shown}")
        self._head = head

    def check_steps(self, port: int) -> None:
        """See that every run of the caller has used exactly the steps that were answered."""
        target = f"localhost:{port}"
        with analyst.connect(target, credentials=credentials(self.folder, "alice")) as barrier:
            for run_id in self.own:
                used = barrier.resume_run(run_id).next_step - 1
                answered = len(self.outcome.steps_by_run.get(run_id, ()))
                if used != answered:
                    self.outcome.faults.append(f"{run_id}: {used} used, {answered} answered")


def over_the_socket(path: Path, authorization: str, sent: bytes) -> Iterator[bytes]:
    """Send frames after a call, and yield the answers until the call ends."""
    call = local_pb2.LocalCall(authorization=authorization).SerializeToString()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(str(path))
        with suppress(OSError):  # refused before all of it was sent
            connection.sendall(HEADER.pack(local_pb2.LOCAL_FRAME_CALL, len(call)) + call + sent)
            connection.shutdown(socket.SHUT_WR)
        said = bytearray()
        with suppress(ConnectionResetError):  # frames after a refusal are not read
            while more := connection.recv(1 << 16):
                said += more
    while said:
        kind, length = HEADER.unpack_from(said)
        data = bytes(said[HEADER.size : HEADER.size + length])
        del said[: HEADER.size + length]
        if kind == local_pb2.LOCAL_FRAME_STEP:
            yield data
            continue
        if kind == local_pb2.LOCAL_FRAME_ROWS:
            place = length - LENGTH.size
            yield data[place - LENGTH.unpack_from(data, place)[0] : place]
            continue
        end = local_pb2.LocalEnd.FromString(data)
        if end.code:
            raise StepsEnded(end)


def fill_transform_caches(process: Process) -> None:
    """Plan runs of many lengths: scipy keeps the tables of its last 16 Fourier transforms."""
    with process.connect() as barrier:
        for number in range(60):
            changed = {"sampling_rate": (40 - number / 7) / 1437}
            steps = (2, 3, 7, 1, 21)[number % 5]
            barrier.plan("digits", "dp-sinkhorn", SINKHORN | changed, num_steps=steps)


def steps_of(folder: CuratorFolder) -> Path:
    """Return the socket for steps."""
    return socket_of(folder).with_name("g.sock.steps")


def resident_kib(pid: int) -> int:
    """Return the resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS:")))


@contextmanager
def curator() -> Iterator[Process]:
    """Serve the digits in a process of its own, with small messages."""
    with tempfile.TemporaryDirectory(prefix="weir-fuzz-") as root:
        folder = digits_folder(Path(root) / "curator")
        folder.config.write_text("[limits]\nmax_message_mib = 1\n")
        unix_socket = str(socket_of(folder))
        log = Path(root) / "log"
        process = start_curator(folder, log, "--grpc-unix-socket", unix_socket)
        try:
            yield process
        finally:
            process.terminate()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wire", choices=["grpc", "local"], default="grpc")
    arguments = parser.parse_args()
    begun = time.monotonic()
    with curator() as process:
        steps = steps_of(process.folder) if arguments.wire == "local" else None
        fuzz = Fuzz(process.folder, process.grpc_port, arguments.seed, steps)
        fill_transform_caches(process)
        fuzz.send(min(WARM_UP, arguments.requests // 2))
        before = resident_kib(process.process.pid)
        fuzz.send(arguments.requests - min(WARM_UP, arguments.requests // 2))
        after = resident_kib(process.process.pid)
        fuzz.check_steps(process.grpc_port)
        fuzz.close()
    outcome = fuzz.outcome
    growth = after / before - 1
    report = {
        "requests": arguments.requests,
        "seed": arguments.seed,
        "seconds": round(time.monotonic() - begun, 1),
        "codes": dict(outcome.codes.most_common()),
        "reasons": dict(outcome.reasons.most_common()),
        "resident_mib": [round(before / 1024, 1), round(after / 1024, 1)],
        "growth": round(growth, 4),
        "faults": outcome.faults[:20],
    }
    sys.stdout.write(json.dumps(report, indent=1) + "\n")
    internal = outcome.reasons[CuratorError.reason]
    return int(bool(outcome.faults) or bool(internal) or growth > 0.1)


if __name__ == "__main__":
    sys.exit(main())
