"""Where a command is told to write: nothing is replaced unasked, and never a curator's own file."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from analyst import new_file as of_analyst
from analyst.cli import main as analyst
from analyst.errors import OutputExists, OutputRefused
from analyst.training.output_lock import only_trainer
from curator.cli import ExitCode, main
from curator.folder import CuratorFolder, initialise
from curator.system import new_file as of_curator
from tests.commands import LEAVES, options

RUN_FOLDERS = {f"analyst {one}train" for one in ("", "embedding ", "adapt ", "teacher ")}
RUN_FOLDERS |= {"analyst evolve"}
COMMANDS = {
    "export": ("ledger", "export"),
    "backup": ("ledger", "backup"),
    "add": ("analyst", "add", "zoe"),
    "rotate": ("analyst", "rotate", "alice"),
}
OWN = (
    "ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm", "ledger-head.json", "curator.toml",
    "identity/callers.json", "identity/ca.key", "identity/new.json", "analysts/zoe.json", "new",
    "datasets/cats/levels.npy",
)  # fmt: skip
MODULES = (of_curator, of_analyst)


def digests(root: Path) -> dict[str, str]:
    files = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".lock")
    quiet = (path for path in files if not path.name.endswith(("-wal", "-shm")))
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in quiet}


@pytest.fixture
def weir(tmp_path: Path) -> CuratorFolder:
    folder = initialise(tmp_path / "weir")
    folder.add_analyst("alice")
    return folder


def test_every_command_that_writes_a_file_can_be_told_to_replace_one() -> None:
    names = {words: set(options(one)) for words, one in LEAVES.items()}
    writing = {words for words, known in names.items() if known & {"--out", "--plot"}}
    assert {"curator ledger export", "curator analyst rotate", "analyst plan"} <= writing
    for words in writing - RUN_FOLDERS:
        assert "--force" in names[words], words


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("force", [(), ("--force",)], ids=["", "forced"])
def test_nothing_is_written_into_a_curator_s_folder(
    weir: CuratorFolder,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    force: tuple[str, ...],
) -> None:
    root = weir.root
    (root.parent / "way").symlink_to(root)
    (root.parent / "ledger").symlink_to(root / "ledger.sqlite")
    (root.parent / "keys").symlink_to(root / "identity")
    monkeypatch.chdir(root / "identity")
    before = digests(root)
    outs = [*(str(root / name) for name in OWN), *(str(root.parent / "way" / name) for name in OWN)]
    outs += ["../ledger.sqlite", "callers.json", str(root.parent / "ledger"), str(root)]
    outs += [str(root.parent / "keys" / "ca.key"), str(root.parent / "keys" / "other")]
    for out in outs:
        argv = [*COMMANDS[command], "--dir", str(root), "--out", out, *force]
        assert main(argv) == ExitCode.FAILED, out
        assert "lies in the curator's folder" in capsys.readouterr().err
    assert digests(root) == before


def test_a_head_file_and_keys_that_lie_elsewhere_are_the_curator_s_too(
    weir: CuratorFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = weir.root.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "head.json").write_text("kept")
    text = weir.config.read_text()
    told = f'head_file = "{elsewhere / "head.json"}"'
    weir.config.write_text(text.replace("[ledger]", f"[ledger]\n{told}", 1))
    weir.identity.rename(elsewhere / "identity")
    weir.identity.symlink_to(elsewhere / "identity")
    before = digests(elsewhere)
    for name in ("head.json", "head.json.lock", "identity/ca.key", "identity/new"):
        argv = ["analyst", "add", "zoe", "--dir", str(weir.root), "--force"]
        assert main([*argv, "--out", str(elsewhere / name)]) == ExitCode.FAILED
        assert "own files" in capsys.readouterr().err
    assert digests(elsewhere) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_exists_is_replaced_when_forced_only(
    weir: CuratorFolder, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    out = weir.root.parent / "mine.txt"
    out.write_text("mine")
    argv = [*COMMANDS[command], "--dir", str(weir.root), "--out", str(out)]
    before = digests(weir.root)
    assert main(argv) == ExitCode.FAILED
    assert f"{out} exists already: choose another --out, or add --force" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert digests(weir.root) == before  # no caller was added or rotated for nothing
    assert main([*argv, "--force"]) == ExitCode.OK
    assert out.read_bytes() != b"mine"
    assert sorted(path.name for path in out.parent.iterdir()) == ["mine.txt", "weir"]


def test_a_hard_link_of_the_ledger_is_replaced_and_the_ledger_is_not(weir: CuratorFolder) -> None:
    link = weir.root.parent / "link"
    os.link(weir.ledger, link)
    before = digests(weir.root)
    argv = ["ledger", "export", "--dir", str(weir.root), "--out", str(link)]
    assert main(argv) == ExitCode.FAILED
    main([*argv, "--force"])
    assert digests(weir.root) == before


def test_a_folder_in_a_curator_s_folder_is_none_of_anybody_s(
    weir: CuratorFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    before = digests(weir.root)
    assert main(["init", str(weir.root / "datasets" / "inner")]) == ExitCode.FAILED
    assert main(["rehearse", "--dir", str(weir.root / "rehearsal")]) == ExitCode.FAILED
    assert capsys.readouterr().err.count("lies in the curator's folder") == 2
    for out in (weir.root, weir.root / "run"):
        for is_new in (True, False):
            with pytest.raises(OutputRefused), only_trainer(out, is_new=is_new):
                pass
    synthetic = weir.root.parent / "s.npz"
    argv = ["export", str(synthetic), "--format", "npz", "--out", str(weir.ledger), "--force"]
    assert analyst(argv) == 4
    assert digests(weir.root) == before
    assert main(["init", str(weir.root)]) == ExitCode.OK  # itself, again


def test_a_run_begins_in_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    words = r"it holds thesis\.tex"
    with pytest.raises(OutputRefused, match=words), only_trainer(tmp_path, is_new=True):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "checkpoint-0000000001.json").write_text("{}")
    with only_trainer(tmp_path, is_new=True):  # what is said of a run there, the session says
        pass
    with only_trainer(tmp_path, is_new=False):
        pass


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
@pytest.mark.parametrize("has_links", [True, False])
def test_whoever_comes_second_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: object, has_links: bool
) -> None:
    new_file: Callable[..., AbstractContextManager[Path]] = module.new_file  # type: ignore[attr-defined]
    if not has_links:

        def link(*_: object) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", link)
    path = tmp_path / "out"

    def write(text: str, meanwhile: str = "") -> None:
        with new_file(path, replace=False) as partial:
            partial.write_text(text)
            assert not path.exists()
            if meanwhile:
                path.write_text(meanwhile)

    with pytest.raises((OutputExists, of_curator.OutputExists)):
        write("second", meanwhile="first")
    assert path.read_text() == "first"
    path.unlink()
    write("whole")
    assert path.read_text() == "whole"
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


FULL = """
import pathlib, resource, signal, sys
from {writes} import new_file
from {explains}
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = pathlib.Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
try:
    with new_file(path, replace=True) as partial:
        partial.write_bytes(b"x" * 5000)
except OSError as error:
    print(explain(error))
"""


PLACES = {
    "curator": {
        "writes": "curator.system.new_file",
        "explains": "curator.system.os_errors import in_words as explain",
    },
    "analyst": {
        "writes": "analyst.new_file",
        "explains": "analyst.os_errors import explain_os_error as explain",
    },
}


@pytest.mark.parametrize("program", PLACES)
def test_a_file_that_did_not_fit_leaves_nothing_and_is_named(tmp_path: Path, program: str) -> None:
    path = tmp_path / "out"
    path.write_text("mine")
    script = FULL.format(**PLACES[program])
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert f"{path}: it would be larger than this process may make it" in done.stdout
    assert path.read_text() == "mine"
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


def test_credentials_that_cannot_be_written_make_nobody_known(
    weir: CuratorFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = digests(weir.root)
    write = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if b'"analyst"' in data:
            raise OSError(28, "No space left on device")
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    out = weir.root.parent / "z.json"
    for command in ("add", "rotate"):
        for kind in ((), ("--certificate",)):
            argv = [*COMMANDS[command], "--dir", str(weir.root), "--out", str(out), *kind]
            assert main(argv) == ExitCode.FAILED
            assert capsys.readouterr().err == (
                f"curator: {out}: its disk is full; make room there, then run the same command "
                "again\n"
            )
    assert digests(weir.root) == before
    assert not out.exists()
