"""A closed run gets a signed certificate that anyone can check offline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analyst.certificate import check_certificate
from analyst.cli import ExitCode, main
from analyst.client.credentials import load_credentials
from analyst.errors import CertificateError
from curator.ledger.sql_ledger import SqlLedger
from tests.e2e.conftest import SINKHORN, Local, another_digits_folder, batch, credentials, run_cli

pytestmark = pytest.mark.e2e


@pytest.fixture
def certificate(local: Local, tmp_path: Path) -> Path:
    path = tmp_path / "certificate.json"
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=40)
        assert run.certificate == ""
        run.gradient(*batch())
        run.close()
        path.write_text(run.certificate)
    return path


def test_it_holds_and_says_what_the_ledger_says(local: Local, certificate: Path) -> None:
    key = load_credentials(credentials(local.folder, "alice")).certificate_key
    statement = check_certificate(certificate, key).statement
    assert statement["dataset"]["promise"] == {"epsilon": 10.0, "delta": 1e-4}
    assert statement["dataset"]["adjacency"] == "add-or-remove-one-record"
    assert statement["run"]["declared_steps"] == 40
    assert statement["run"]["used_steps"] == 1
    assert statement["run"]["parameters"]["noise_multiplier"] == 1.0
    ledger: SqlLedger = local.curator.ledger
    assert statement["dataset"]["spent_epsilon"] == ledger.statement("digits").spent_epsilon
    assert statement["ledger_head"]["digest"] == ledger.head()[1]
    alone = statement["this_run_alone_at_its_declared_steps"]["epsilon"]
    assert 0 < alone < 10
    assert "1437" not in certificate.read_text().replace("0.0278", "")  # no true size


@pytest.mark.parametrize(
    ("before", "after"),
    [('"used_steps": 1', '"used_steps": 0'), ('"epsilon": 10.0', '"epsilon": 1.0')],
)
def test_a_changed_word_is_noticed(certificate: Path, before: str, after: str) -> None:
    text = certificate.read_text()
    assert before in text
    certificate.write_text(text.replace(before, after))
    with pytest.raises(CertificateError, match="changed"):
        check_certificate(certificate)


def test_another_curator_s_key_is_noticed(certificate: Path, tmp_path: Path) -> None:
    other = another_digits_folder(tmp_path / "other")
    key = load_credentials(credentials(other, "alice")).certificate_key
    with pytest.raises(CertificateError, match="another curator"):
        check_certificate(certificate, key)


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", json.dumps({"statement": {}, "public_key": 1})]
)
def test_something_else_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "certificate.json"
    path.write_text(content)
    with pytest.raises(CertificateError, match="not a privacy certificate"):
        check_certificate(path)


def test_the_command(local: Local, certificate: Path) -> None:
    of = ("--credentials", str(credentials(local.folder, "alice")))
    done = run_cli("analyst", "certificate", "verify", str(certificate), *of)
    assert done.returncode == 0
    assert "epsilon 10 at delta 0.0001" in done.stdout
    assert done.stdout.endswith("\nthe signature holds, and it is your curator's\n")
    anybody = run_cli("analyst", "certificate", "verify", str(certificate), "--quiet")
    assert anybody.returncode == 10
    assert "anybody could have made it" in anybody.stderr
    assert "your curator's" not in anybody.stdout
    certificate.write_text(certificate.read_text().replace("digits", "faces"))
    done = run_cli("analyst", "certificate", "verify", str(certificate), *of)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr


def test_its_analyst_fetches_a_lost_one_and_nobody_else(local: Local, tmp_path: Path) -> None:
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=3)

    def fetch(name: str, out: Path) -> int:
        access = ["--curator", f"localhost:{local.curator.rpc.port}"]
        access += ["--credentials", str(credentials(local.folder, name))]
        return main(["certificate", "fetch", run.run_id, *access, "--out", str(out)])

    found = tmp_path / "found.json"
    assert fetch("alice", found) == ExitCode.FAILED  # it is open still
    with local.connect() as barrier:
        barrier.resume_run(run.run_id).close()
    assert fetch("bob", found) == ExitCode.REFUSED
    assert not found.exists()
    assert fetch("alice", found) == ExitCode.OK
    key = load_credentials(credentials(local.folder, "alice")).certificate_key
    assert check_certificate(found, key).statement["run"]["id"] == run.run_id
