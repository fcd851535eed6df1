"""A curator on a Unix socket: the same steps, tokens needed, open to its owner alone."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Any

import grpc
import pytest

import analyst
from analyst.client.address import grpc_target
from analyst.errors import AnalystError, CredentialsError
from curator.config import CuratorConfig, GrpcSection, RestSection
from curator.identity.listen import PortUnavailable
from curator.process.bootstrap import create_curator
from protos.weir.v1 import dataset_pb2, service_pb2_grpc
from tests.e2e.conftest import SINKHORN, batch, credentials, digits_folder, run_cli

pytestmark = pytest.mark.e2e


def config(path: Path) -> CuratorConfig:
    return CuratorConfig(grpc=GrpcSection(port=0, unix_socket=str(path)), rest=RestSection(port=0))


def test_steps_over_a_socket(tmp_path: Path) -> None:
    folder, path = digits_folder(tmp_path / "c%41 ?"), tmp_path / "g%65 1.sock"
    target = f"unix:{path}"
    curator = create_curator(folder, config(path))
    curator.start()
    try:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with analyst.connect(target, credentials=credentials(folder, "alice")) as barrier:
            run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=3)
            assert run.gradient(*batch()).shape == batch()[0].shape
            run.close()
        with grpc.insecure_channel(grpc_target(target)) as channel:
            stub = service_pb2_grpc.WeirServiceStub(channel)
            with pytest.raises(grpc.RpcError) as refused:
                stub.ListDatasets(dataset_pb2.ListDatasetsRequest())
            code: Any = refused.value
            assert code.code() is grpc.StatusCode.UNAUTHENTICATED
        listed = run_cli(
            *("analyst", "budget", "--curator", target, "--dataset", "digits"),
            *("--credentials", str(credentials(folder, "alice"))),
        )
        assert listed.returncode == 0, listed.stderr
        path.chmod(0o666)
        with pytest.raises(CredentialsError):
            analyst.connect(target, credentials=credentials(folder, "alice"))
    finally:
        curator.draining.set()
        curator.wait()
    assert not path.exists()
    with pytest.raises(AnalystError):
        analyst.connect(target, credentials=credentials(folder, "alice"), timeout=0.2)


def test_a_certificate_is_no_use_on_a_socket(tmp_path: Path) -> None:
    folder = digits_folder(tmp_path / "c")
    folder.add_analyst("carol", certificate=True)
    with pytest.raises(CredentialsError, match="proves nothing"):
        analyst.connect(f"unix:{tmp_path}/g.sock", credentials=credentials(folder, "carol"))


@pytest.mark.parametrize("kind", ["relative", "long", "file", "nowhere"])
def test_a_path_that_cannot_be_a_socket_is_refused(tmp_path: Path, kind: str) -> None:
    paths = {
        "relative": Path("g.sock"),
        "long": tmp_path / ("x" * 120),
        "file": tmp_path / "file",
        "nowhere": tmp_path / "missing" / "g.sock",
    }
    paths["file"].write_text("kept")
    with pytest.raises(PortUnavailable, match=r"socket"):
        create_curator(digits_folder(tmp_path / "c"), config(paths[kind]))
    assert paths["file"].read_text() == "kept"


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770])
def test_a_folder_where_others_may_make_files_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(mode)
    words = r"others may make files in .*open, .*folder for unix_socket that only the curator's"
    with pytest.raises(PortUnavailable, match=words):
        create_curator(digits_folder(tmp_path / "c"), config(folder / "g.sock"))
    assert not list(folder.iterdir())


def test_a_socket_that_a_killed_curator_left_is_replaced(tmp_path: Path) -> None:
    folder, path = digits_folder(tmp_path / "c"), tmp_path / "g.sock"
    os.mknod(path, stat.S_IFSOCK | 0o666)
    curator = create_curator(folder, config(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    curator.start()
    curator.draining.set()
    curator.wait()


def test_a_path_of_the_longest_length_serves_steps_too(tmp_path: Path) -> None:
    parent = Path(tempfile.mkdtemp(prefix="weir-"))
    try:
        path = parent / ("s" * (100 - len(str(parent)) - 1))
        curator = create_curator(digits_folder(tmp_path / "c"), config(path))
        curator.start()
        assert path.exists()
        assert Path(f"{path}.steps").exists()
        curator.draining.set()
        curator.wait()
    finally:
        shutil.rmtree(parent)


def test_a_path_that_is_served_is_left_alone(tmp_path: Path) -> None:
    folder, path = digits_folder(tmp_path / "c"), tmp_path / "g.sock"
    curator = create_curator(folder, config(path))
    curator.start()
    try:
        with pytest.raises(PortUnavailable, match="another process answers"):
            create_curator(digits_folder(tmp_path / "d"), config(path))
        with analyst.connect(f"unix:{path}", credentials=credentials(folder, "alice")) as barrier:
            barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=3).close()
    finally:
        curator.draining.set()
        curator.wait()


def test_what_cannot_be_bound_leaves_no_other_socket(tmp_path: Path) -> None:
    path = tmp_path / "g.sock"
    Path(f"{path}.steps").mkdir()
    with pytest.raises(PortUnavailable, match="cannot listen"):
        create_curator(digits_folder(tmp_path / "c"), config(path))
    assert not path.exists()
