"""Commands through the socket: its owner's alone, whatever the length of its path."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from curator.administration.channel import AlreadyServing, CommandRefused, CommandServer, send
from curator.administration.commands import COMMANDS, Command, LowerCap, Pause
from curator.errors import LedgerUnavailable, UnknownDataset
from curator.ledger.problems import LedgerConflict

PAUSE = Pause(dataset="d", reason="test")


class Recorder:
    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.problem: Exception | None = None

    def __call__(self, command: Command) -> tuple[str, ...]:
        if self.problem is not None:
            raise self.problem
        self.commands.append(command)
        return "one", "two"


@pytest.fixture(params=["s", "a-folder-with-a-name-that-is-too-long-for-the-path-of-a-socket" * 3])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / str(request.param)
    folder.mkdir()
    return folder / "admin.sock"


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def server(path: Path, recorder: Recorder) -> Iterator[CommandServer]:
    server = CommandServer(path, recorder)
    server.start()
    yield server
    server.stop()


@pytest.mark.usefixtures("server")
def test_a_command_arrives_as_it_was_sent(path: Path, recorder: Recorder) -> None:
    command = LowerCap(dataset="d", epsilon=2.5, reason="because")
    assert send(path, command) == ("one", "two")
    assert recorder.commands == [command]


@pytest.mark.usefixtures("server")
def test_the_socket_is_its_owner_s(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (LedgerConflict("a cap only falls"), "a cap only falls"),
        (UnknownDataset(), "There is no such data set"),
        (LedgerUnavailable("secret"), "The ledger cannot be written"),
    ],
)
def test_a_refusal_says_why(path: Path, recorder: Recorder, problem: Exception, said: str) -> None:
    recorder.problem = problem
    with pytest.raises(CommandRefused, match=said):
        send(path, PAUSE)


def test_nobody_serves(path: Path, recorder: Recorder) -> None:
    assert send(path, PAUSE) is None
    server = CommandServer(path, recorder)
    server.start()
    server.stop()
    assert not path.exists()
    assert send(path, PAUSE) is None


def test_a_socket_that_a_killed_process_left(path: Path, recorder: Recorder) -> None:
    path.touch()
    assert send(path, PAUSE) is None
    server = CommandServer(path, recorder)
    server.start()
    assert send(path, PAUSE) == ("one", "two")
    server.stop()


@pytest.mark.usefixtures("server")
def test_a_folder_is_served_once(path: Path, recorder: Recorder) -> None:
    with pytest.raises(AlreadyServing, match="folder of its own"):
        CommandServer(path, recorder)
    assert send(path, PAUSE) == ("one", "two")


@pytest.mark.parametrize(
    "value",
    [
        {"kind": "nothing"},
        {"kind": "pause", "dataset": "../up", "reason": "x"},
        {"kind": "pause", "dataset": "d", "reason": ""},
        {"kind": "cap", "dataset": "d", "epsilon": float("nan"), "reason": "x"},
        {"kind": "share", "dataset": "d", "analyst": "A b", "epsilon": 1.0},
        {"kind": "pause", "dataset": "d", "reason": "x", "more": 1},
    ],
)
def test_what_is_no_command(value: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        COMMANDS.validate_python(value)


def test_no_descriptor_is_left_open(path: Path, recorder: Recorder) -> None:
    server = CommandServer(path, recorder)
    server.start()
    send(path, PAUSE)
    before = open_descriptors()
    for _ in range(20):
        send(path, PAUSE)
    assert open_descriptors() <= before + 4
    server.stop()


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
