"""A token goes to no socket that another user could have put there."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from analyst.client.address import check_unix_socket, grpc_target
from analyst.errors import CredentialsError


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "s"
    folder.mkdir(mode=0o755)
    path = folder / "g.sock"
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(str(path))
        path.chmod(0o600)
        yield path


def test_the_own_socket_in_the_own_folder(path: Path) -> None:
    check_unix_socket(path)
    path.unlink()
    check_unix_socket(path)  # the curator may come back
    path.parent.rmdir()
    check_unix_socket(path)  # it may make its folder again, and nobody else


def test_a_folder_that_is_missing_where_others_may_make_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(CredentialsError, match="others may make files"):
        check_unix_socket(tmp_path / "not/there/g.sock")


def test_a_folder_that_others_may_put_another_in_the_place_of(path: Path) -> None:
    path.parent.parent.chmod(0o1777)  # as /tmp: they cannot
    check_unix_socket(path)
    path.parent.parent.chmod(0o777)
    with pytest.raises(CredentialsError, match="others may make files"):
        check_unix_socket(path)


def test_a_link_is_followed_to_where_it_leads(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path.parent)
    check_unix_socket(tmp_path / "link/g.sock")
    path.parent.chmod(0o777)
    with pytest.raises(CredentialsError, match="others may make files"):
        check_unix_socket(tmp_path / "link/g.sock")


def test_grpc_is_given_a_path_that_it_decodes_to_the_same() -> None:
    assert grpc_target("unix:/op%65n/g 1.sock") == "unix:/op%2565n/g%201.sock"
    assert grpc_target("localhost:50051") == "localhost:50051"


@pytest.mark.parametrize("mode", [0o620, 0o606, 0o660])
def test_a_socket_that_others_may_open(path: Path, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(CredentialsError, match="only its owner"):
        check_unix_socket(path)


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770])
@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_where_others_may_make_a_socket(path: Path, mode: int, *, exists: bool) -> None:
    if not exists:
        path.unlink()
    path.parent.chmod(mode)
    with pytest.raises(CredentialsError, match="others may make files") as refused:
        check_unix_socket(path)
    assert "only the curator's user may write" in refused.value.remedy


def test_a_file_is_no_socket(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "file").chmod(0o600)
    with pytest.raises(CredentialsError, match="not a socket"):
        check_unix_socket(tmp_path / "file")
