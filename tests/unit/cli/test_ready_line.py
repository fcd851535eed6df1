"""The line, or the object, that says where a curator answers and which body computes."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from curator.cli.screen import Screen
from curator.cli.serve import say_ready
from curator.config import CuratorConfig
from curator.divergences.backend import Backend, Choice, Verdict
from curator.ledger.datasets_and_runs import DatasetStatus

MEASURED = Verdict(error=4e-5, allowed=1e-3)
REFUSED = Choice(
    body=Backend.TORCH,
    verdict=MEASURED,
    refused=Backend.NUMBA,
    refusal=Verdict(reason="numba is not installed"),
)


def said(
    choice: Choice,
    capsys: pytest.CaptureFixture[str],
    *,
    as_json: bool,
    config: CuratorConfig = CuratorConfig(),  # noqa: B008 - frozen
    datasets: tuple[tuple[str, DatasetStatus], ...] = (),
) -> str:
    rpc = SimpleNamespace(port=1, certificate_port=None, unix_socket=None)
    curator = SimpleNamespace(
        solver=choice,
        rpc=rpc,
        rest=SimpleNamespace(port=2),
        health=None,
        ledger=SimpleNamespace(datasets=lambda: [_state(*one) for one in datasets]),
    )
    say_ready(Screen(as_json=as_json, quiet=True), config, curator, tls=True)  # type: ignore[arg-type]
    return capsys.readouterr().out


def _state(name: str, status: DatasetStatus) -> SimpleNamespace:
    return SimpleNamespace(registration=SimpleNamespace(name=name), status=status)


def test_a_data_set_that_is_over_is_named_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    choice = Choice(body=Backend.NUMBA, verdict=MEASURED)
    datasets = (
        ("cats", DatasetStatus.ACTIVE), ("dogs", DatasetStatus.ERASED),
        ("elks", DatasetStatus.PAUSED), ("fish", DatasetStatus.RETIRED),
    )  # fmt: skip
    line = said(choice, capsys, as_json=False, datasets=datasets)
    assert line.endswith("data sets: cats, dogs (erased), elks, fish (retired)\n")
    told = json.loads(said(choice, capsys, as_json=True, datasets=datasets))
    assert told["datasets"] == ["cats", "dogs", "elks", "fish"]
    assert told["status"] == {name: str(status) for name, status in datasets}


def test_the_body_that_serves_is_named_with_its_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    choice = Choice(body=Backend.NUMBA, verdict=MEASURED)
    line = said(choice, capsys, as_json=False)
    assert line.count("\n") == 1
    assert " solver: numba (error 4.0e-05) data sets: none" in line
    solver = json.loads(said(choice, capsys, as_json=True))["solver"]
    assert solver == {"body": "numba", "error": 4e-5, "allowed": 1e-3, "reason": ""}


def test_a_refused_body_is_named_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    line = said(REFUSED, capsys, as_json=False)
    assert "torch (error 4.0e-05; numba is not used: numba is not installed)" in line
    solver = json.loads(said(REFUSED, capsys, as_json=True))["solver"]
    assert (solver["body"], solver["reason"]) == ("torch", REFUSED.reason)


@pytest.mark.parametrize(
    ("host", "names", "shown"),
    [
        ("::", (), "localhost"),
        ("[::]", (), "localhost"),
        ("0.0.0.0", (), "localhost"),  # noqa: S104 - not bound
        ("0.0.0.0", ("weir.example.org", "weir"), "weir.example.org"),  # noqa: S104 - the same
        ("::1", ("weir.example.org",), "[::1]"),
        ("[2001:db8::7]", (), "[2001:db8::7]"),
        ("10.0.0.7", (), "10.0.0.7"),
    ],
)
def test_an_address_can_be_pasted(
    host: str, names: tuple[str, ...], shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sections = {"grpc": {"host": host}, "rest": {"host": host}, "identity": {"host_names": names}}
    config = CuratorConfig.model_validate(sections)
    choice = Choice(body=Backend.NUMBA, verdict=MEASURED)
    line = said(choice, capsys, as_json=False, config=config)
    assert line.startswith(f"ready: grpc {shown}:1 rest https://{shown}:2 ")
    answer = json.loads(said(choice, capsys, as_json=True, config=config))
    assert (answer["grpc"], answer["rest"]) == (f"{shown}:1", f"https://{shown}:2")
    listens_everywhere = host in {"::", "[::]", "0.0.0.0"}  # noqa: S104 - the same
    assert answer["on_all_addresses"] == (["grpc", "rest"] if listens_everywhere else [])
    assert ("(on all addresses: grpc, rest) " in line) == listens_everywhere
