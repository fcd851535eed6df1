"""The socket of a serving curator: commands in, lines for the steward out; its owner's only.

gRPC over a Unix socket, with JSON for messages: nothing here is part of the barrier's protocol.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast, final
from urllib.parse import quote

import grpc
from pydantic import ValidationError

from curator.administration.commands import COMMANDS, Command
from curator.errors import CuratorError

_LONGEST_PATH: Final = 100


@contextmanager
def socket_name(path: Path) -> Iterator[str]:
    """Give a path of a socket; one that is too long goes by its open folder.

    Args:
        path: Of the socket; an `OSError` if it is too long and its folder cannot be opened.
    """
    if len(os.fsencode(path.absolute())) < _LONGEST_PATH:
        yield str(path.absolute())
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


_METHOD: Final = "Execute"
_SERVICE: Final = "weir.administration"
_SECONDS: Final = 120.0

Execute = Callable[[Command], tuple[str, ...]]


class CommandRefused(ValueError):
    """The serving curator refused a command; the text says why."""


class AlreadyServing(RuntimeError):
    """Another process serves this folder."""


@final
class CommandServer:
    """Takes commands one at a time."""

    def __init__(self, path: Path, execute: Execute) -> None:
        """Bind the socket.

        Args:
            path: Of the socket, in a folder that only its owner may enter.
            execute: Carries a command out.

        Raises:
            AlreadyServing: If another process serves this folder.
        """
        self._path = path
        self._execute = execute
        self._lock = _lock(path)
        path.unlink(missing_ok=True)  # of a process that was killed
        self._server = grpc.server(ThreadPoolExecutor(1, thread_name_prefix="administration"))
        handler = grpc.unary_unary_rpc_method_handler(self._answer)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(_SERVICE, {_METHOD: handler}),)
        )
        with _address(path) as address:
            self._server.add_insecure_port(address)
        path.chmod(0o600)

    def start(self) -> None:
        """Begin to answer."""
        self._server.start()

    def stop(self) -> None:
        """Finish the present command and remove the socket."""
        self._server.stop(_SECONDS).wait()
        self._path.unlink(missing_ok=True)
        os.close(self._lock)

    def _answer(self, request: bytes, _: grpc.ServicerContext) -> bytes:
        try:
            lines = self._execute(COMMANDS.validate_json(request))
        except CuratorError as error:
            return _encode(refused=f"{error.public_message} {error.remedy}")
        except ValidationError:
            return _encode(refused="not a command that this version knows")
        except (ValueError, RuntimeError, OSError) as error:  # for the steward, who may know all
            return _encode(refused=str(error))
        return _encode(lines=lines)


def send(path: Path, command: Command) -> tuple[str, ...] | None:
    """Send a command to the curator that serves a folder.

    Returns:
        What to tell the steward, None when no curator serves.

    Raises:
        CommandRefused: If it was refused.
    """
    if not path.exists():
        return None
    with _address(path) as address, grpc.insecure_channel(address) as channel:
        call = channel.unary_unary(f"/{_SERVICE}/{_METHOD}", _as_it_is, _as_it_is)
        try:
            answer: dict[str, Any] = json.loads(call(COMMANDS.dump_json(command), timeout=_SECONDS))
        except grpc.RpcError as error:
            if cast("grpc.Call", error).code() is grpc.StatusCode.UNAVAILABLE:
                return None
            msg = "the serving curator did not answer; look at its log, then ask again"
            raise CommandRefused(msg) from None
    if "refused" in answer:
        raise CommandRefused(answer["refused"])
    return tuple(answer["lines"])


def _lock(path: Path) -> int:
    """Hold a lock beside the socket for as long as this process lives.

    Raises:
        AlreadyServing: If another process holds it.
    """
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        msg = f"a curator serves {path.parent} already; give each one a folder of its own"
        raise AlreadyServing(msg) from None
    return lock


def _as_it_is(message: bytes) -> bytes:
    return message


def _encode(**answer: object) -> bytes:
    return json.dumps(answer).encode()


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """Give an address for gRPC, which decodes it like a URL."""
    with socket_name(path) as name:
        yield f"unix:{quote(name)}"
