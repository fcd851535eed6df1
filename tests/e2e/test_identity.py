"""The identity matrix: whoever may not is refused, whether or not the thing exists."""

from __future__ import annotations

import ssl
import urllib.error
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

import analyst
from analyst.client import Barrier
from analyst.client.codec import encode_step
from analyst.errors import CredentialsError, Unauthenticated
from curator.identity.certificates import create_certificates, issue_client_certificate
from protos.weir.v1 import budget_pb2, run_pb2
from protos.weir.v1.service_pb2_grpc import WeirServiceStub
from tests.e2e.conftest import SINKHORN, batch
from tests.e2e.identity_doors import Doors, metadata, refused, serving
from tests.e2e.test_doors import RAW

pytestmark = pytest.mark.e2e

UNKNOWN = "0" * 32
Call = Callable[[WeirServiceStub, tuple[tuple[str, str], ...], str], Any]


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with serving(tmp_path_factory.mktemp("identity") / "curator") as doors:
        yield doors


def connect(doors: Doors, name: str) -> Barrier:
    content = doors.credentials(name)
    rpc = doors.curator.rpc
    port = rpc.port if "token" in content else rpc.certificate_port
    path = doors.folder.root / "analysts" / f"{name}.credentials.json"
    return analyst.connect(f"localhost:{port}", credentials=path, patience=5.0)


def unary(stub: WeirServiceStub, who: tuple[tuple[str, str], ...], run_id: str) -> Any:
    return stub.Step(encode_step(run_id, 1, *batch()).whole(), metadata=who, timeout=20)


def stream(stub: WeirServiceStub, who: tuple[tuple[str, str], ...], run_id: str) -> Any:
    requests = iter([encode_step(run_id, 1, *batch()).whole()])
    return list(stub.StreamSteps(requests, metadata=who, timeout=20))


def resume(stub: WeirServiceStub, who: tuple[tuple[str, str], ...], run_id: str) -> Any:
    return stub.ResumeRun(run_pb2.ResumeRunRequest(run_id=run_id), metadata=who, timeout=20)


def close(stub: WeirServiceStub, who: tuple[tuple[str, str], ...], run_id: str) -> Any:
    return stub.CloseRun(run_pb2.CloseRunRequest(run_id=run_id), metadata=who, timeout=20)


def listed(stub: WeirServiceStub, who: tuple[tuple[str, str], ...], thing: str = "") -> Any:
    del thing
    return stub.ListRuns(run_pb2.ListRunsRequest(), metadata=who, timeout=20)


def open_run(stub: WeirServiceStub, who: tuple[tuple[str, str], ...], dataset: str) -> Any:
    request = run_pb2.OpenRunRequest(dataset=dataset, num_steps=1, idempotency_key="k" * 20)
    return stub.OpenRun(request, metadata=who, timeout=20)


CALLS = [unary, stream, resume, close]


@pytest.fixture(scope="module")
def run_id(doors: Doors) -> str:
    """A run of alice."""
    with connect(doors, "alice") as barrier:
        return barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=5).run_id


def nobody(doors: Doors) -> dict[str, Any]:
    return {}


def wrong_token(doors: Doors) -> dict[str, Any]:
    return {"token": "x" * 43}


def expired_token(doors: Doors) -> dict[str, Any]:
    if not (doors.folder.root / "analysts" / "late.credentials.json").exists():
        doors.folder.add_analyst("late", None, datetime.now(UTC) - timedelta(seconds=1))
    return doors.credentials("late")


def revoked_token(doors: Doors) -> dict[str, Any]:
    content = doors.credentials("gone")
    doors.folder.tokens.revoke("gone")
    return content


def revoked_certificate(doors: Doors) -> dict[str, Any]:
    content = doors.credentials("gone-certificate")
    doors.folder.tokens.revoke("gone-certificate")
    return content


def rotated_certificate(doors: Doors) -> dict[str, Any]:
    content = doors.credentials("turned-certificate")
    doors.folder.tokens.rotate("turned-certificate")
    return content


def unlisted_certificate(doors: Doors) -> dict[str, Any]:
    """Return a certificate of the right authority, for a known name, that was never handed out."""
    issued = issue_client_certificate(doors.folder.identity, "alice")
    return {"client_certificate": issued.certificate, "client_key": issued.key, "analyst": "x"}


UNKNOWN_CALLERS = [
    nobody,
    wrong_token,
    expired_token,
    revoked_token,
    revoked_certificate,
    rotated_certificate,
    unlisted_certificate,
]


@pytest.mark.parametrize("who", UNKNOWN_CALLERS)
def test_whoever_is_not_known_is_refused_everywhere_with_the_same_words(
    doors: Doors, run_id: str, who: Callable[[Doors], dict[str, Any]]
) -> None:
    content = who(doors)
    with doors.grpc(content) as stub:
        seen = [
            refused(lambda call=call, thing=thing: call(stub, metadata(content), thing))  # type: ignore[misc]
            for call in [*CALLS, open_run, listed]
            for thing in (run_id, UNKNOWN, "digits")
        ]
    assert all(one == seen[0] for one in seen)
    assert seen[0].code is grpc.StatusCode.UNAUTHENTICATED
    assert seen[0].refusal.reason == "UNAUTHENTICATED"
    paths = ("/v1/datasets", f"/v1/runs/{run_id}", f"/v1/runs/{UNKNOWN}", "/v1/ledger/head")
    answers = [doors.rest(path, content) for path in paths]
    assert all(one == answers[0] for one in answers)
    assert answers[0][0] == 401
    assert answers[0][1]["detail"] == seen[0].refusal.message


def foreign(doors: Doors, folder: Path) -> dict[str, Any]:
    create_certificates(folder, [])
    issued = issue_client_certificate(folder, "alice")
    return {"client_certificate": issued.certificate, "client_key": issued.key, "analyst": "f"}


def expired(doors: Doors, folder: Path) -> dict[str, Any]:
    ends = datetime.now(UTC) - timedelta(seconds=2)
    issued = issue_client_certificate(doors.folder.identity, "alice", ends)
    return {"client_certificate": issued.certificate, "client_key": issued.key, "analyst": "e"}


@pytest.mark.parametrize("who", [foreign, expired])
def test_a_certificate_that_tls_refuses_reaches_nothing(
    doors: Doors, tmp_path: Path, who: Callable[[Doors, Path], dict[str, Any]]
) -> None:
    content = who(doors, tmp_path)
    with doors.grpc(content) as stub:
        for thing in (UNKNOWN, "digits"):
            seen = refused(lambda thing=thing: resume(stub, (), thing))  # type: ignore[misc]
            assert seen.code is grpc.StatusCode.UNAVAILABLE
            assert seen.refusal.reason == ""
    with pytest.raises((urllib.error.URLError, ssl.SSLError, ConnectionError)):
        doors.rest("/v1/datasets", content)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ["bob", "bob-certificate"])
def test_another_analyst_s_run_is_as_unknown_as_one_that_never_was(
    doors: Doors, run_id: str, call: Call, name: str
) -> None:
    content = doors.credentials(name)
    with doors.grpc(content) as stub:
        hidden = refused(lambda: call(stub, metadata(content), run_id))
        missing = refused(lambda: call(stub, metadata(content), UNKNOWN))
        own = [run.run_id for run in listed(stub, metadata(content)).runs]
    assert run_id not in own
    assert hidden == missing
    assert hidden.code is grpc.StatusCode.NOT_FOUND
    assert hidden.refusal.reason == "UNKNOWN_RUN"
    assert run_id.encode() not in b"".join(value for _, value in hidden.metadata)
    shown, none = (doors.rest(f"/v1/runs/{one}", content) for one in (run_id, UNKNOWN))
    assert shown == none
    assert shown[0] == 404


@pytest.mark.parametrize("name", ["auditor", "auditor-certificate", "steward"])
def test_who_only_reads_opens_no_run_and_takes_no_step(
    doors: Doors, run_id: str, name: str
) -> None:
    content = doors.credentials(name)
    head = doors.curator.ledger.head()
    with doors.grpc(content) as stub:
        seen = [
            refused(lambda call=call, thing=thing: call(stub, metadata(content), thing))  # type: ignore[misc]
            for call, things in (
                (open_run, ("digits", "nothing")),
                (unary, (run_id, UNKNOWN)),
                (stream, (run_id, UNKNOWN)),
                (close, (run_id, UNKNOWN) if name != "steward" else ()),
            )
            for thing in things
        ]
        assert resume(stub, metadata(content), run_id).run_id == run_id
        found = {run.run_id: run for run in listed(stub, metadata(content)).runs}
        assert (found[run_id].analyst, found[run_id].num_steps) == ("alice", 5)
        request = budget_pb2.GetBudgetRequest(dataset="digits")
        assert stub.GetBudget(request, metadata=metadata(content), timeout=20).epsilon == 10.0
    assert all(one == seen[0] for one in seen)
    assert seen[0].code is grpc.StatusCode.PERMISSION_DENIED
    assert doors.curator.ledger.head() == head
    runs = doors.rest("/v1/runs", content)[1]
    assert run_id in [one["run_id"] for one in runs]  # type: ignore[index]
    assert doors.rest("/v1/ledger/head", content) == (
        200,
        {"sequence": head[0], "digest": head[1]},
    )


@pytest.mark.parametrize("name", ["alice", "bob-certificate"])
def test_the_ledger_s_head_is_not_for_analysts(doors: Doors, name: str) -> None:
    status, problem = doors.rest("/v1/ledger/head", doors.credentials(name))
    assert (status, problem["reason"]) == (403, "NOT_PERMITTED")


def test_methods_that_are_not_there_and_not_listed_are_refused_alike(doors: Doors) -> None:
    content = doors.credentials("alice")
    root = (doors.folder.identity / "ca.pem").read_bytes()
    target = f"localhost:{doors.curator.rpc.port}"
    with grpc.secure_channel(target, grpc.ssl_channel_credentials(root)) as channel:
        seen = []
        for method in (
            "/weir.v1.WeirService/ResetBudget",
            "/grpc.health.v1.Health/Watch",
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        ):
            call = channel.unary_unary(method, RAW, RAW)
            seen.append(refused(lambda call=call: call(b"", metadata=metadata(content), timeout=9)))  # type: ignore[misc]
    assert seen[0] == seen[1] == seen[2]
    assert seen[0].code is grpc.StatusCode.PERMISSION_DENIED


def test_an_analyst_with_a_certificate_trains_and_is_ended_by_revoking(doors: Doors) -> None:
    with connect(doors, "carol-certificate") as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=5)
        run.gradient(*batch())
        assert doors.curator.ledger.run(run.run_id).analyst == "carol-certificate"
        shown = doors.rest("/v1/runs", doors.credentials("carol-certificate"))[1]
        assert [one["run_id"] for one in shown] == [run.run_id]  # type: ignore[index]
        doors.folder.tokens.revoke("carol-certificate")
        with pytest.raises(Unauthenticated):  # on the connection that is open
            run.gradient(*batch())
        with pytest.raises(Unauthenticated):
            barrier.budget("digits")


def test_the_certificate_decides_and_never_a_header(doors: Doors, run_id: str) -> None:
    content = doors.credentials("bob-certificate")
    alice = metadata(doors.credentials("alice"))
    with doors.grpc(content) as stub:
        assert refused(lambda: resume(stub, alice, run_id)).refusal.reason == "UNKNOWN_RUN"
    mixed = content | {"token": doors.credentials("alice")["token"]}
    assert doors.rest(f"/v1/runs/{run_id}", mixed)[0] == 404


def test_a_certificate_that_has_ended_is_said_before_connecting(
    doors: Doors, tmp_path: Path
) -> None:
    ends = datetime.now(UTC) - timedelta(seconds=2)
    path = doors.folder.add_analyst("past", tmp_path / "past.json", ends, certificate=True)
    with pytest.raises(CredentialsError, match="has ended"):
        analyst.connect("localhost:1", credentials=path)
