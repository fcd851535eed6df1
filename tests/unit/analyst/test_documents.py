"""What is handed to the analyst is checked: a spoilt document is a named problem, no fault."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from safetensors.torch import save_file

from analyst.certificate import certificate_text, check_certificate
from analyst.client.credentials import load_credentials
from analyst.embedding.file import load_embedding
from analyst.errors import AnalystError, CertificateError, CheckpointError
from analyst.evaluation.result import load_point
from analyst.evaluation.run_folder import read_run_folder
from analyst.facts import ImageFacts
from analyst.recipes import load_recipe
from analyst.training.checkpoint import CheckpointStore, Manifest
from analyst.training.federation.config import load_federation
from analyst.training.federation.folder import FederationFolder
from tests.fakes.spoilt import problem, spoilt

CREDENTIALS = {
    "version": 1, "analyst": "alice", "token": "t", "certificate_authority": "pem",
    "certificate_key": base64.b64encode(b"k" * 32).decode(),
}  # fmt: skip
FACTS = {"name": "digits", "channels": 1, "height": 8, "width": 8, "classes": ["a", "b"]}
STATEMENT = {
    "format": "weir-privacy-certificate-1",
    "dataset": {"name": "digits", "adjacency": "add-or-remove-one-record", "spent_epsilon": 2.5,
                "promise": {"epsilon": 10, "delta": 1e-5}},
    "run": {"id": "r", "analyst": "alice", "mechanism": "dp-sinkhorn", "declared_steps": 5,
            "used_steps": 3, "close_reason": "closed"},
    "this_run_alone_at_its_declared_steps": {"epsilon": 1.5, "delta": 1e-5},
    "ledger_head": {"sequence": 7, "digest": "d" * 64},
}  # fmt: skip
EVALUATION = {
    "name": "a", "reports": [{"classifier": "logistic", "accuracy": 0.9}],
    "privacy": {"epsilon": 2.5, "delta": 1e-5},
}  # fmt: skip
FEDERATION = {
    "format": 1, "combine": "mean", "on_loss": "stop",
    "curators": [{"name": "north", "dataset": "digits", "weight": 2.0}],
}  # fmt: skip
UPDATE = {"kind": "update", "step": 1, "gradient_norm": 0.5, "spent_epsilon": 0.1}
KEY = Ed25519PrivateKey.generate()


def signed(statement: Any) -> bytes:
    """Return a certificate that anybody could have made: the signature holds."""
    text = json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()
    key = KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    content = {
        "statement": statement,
        "public_key": base64.b64encode(key).decode(),
        "signature": base64.b64encode(KEY.sign(text)).decode(),
    }
    return json.dumps(content).encode()


def read_statement(path: Path) -> str:
    return certificate_text(check_certificate(path))


def test_the_head_of_the_ledger_is_printed_whole(tmp_path: Path) -> None:
    path = tmp_path / "certificate.json"
    path.write_bytes(signed(STATEMENT))
    assert f"entry 7, {'d' * 64}\n" in read_statement(path)


@pytest.mark.parametrize("given", ["abc", "SHA256:" + "g" * 64, "", "d" * 63])
def test_what_is_no_fingerprint_is_told_from_another_curator_s(tmp_path: Path, given: str) -> None:
    path = tmp_path / "certificate.json"
    path.write_bytes(signed(STATEMENT))
    with pytest.raises(CertificateError, match="is not the fingerprint of a key"):
        check_certificate(path, fingerprint=given)
    with pytest.raises(CertificateError, match="was signed by another curator"):
        check_certificate(path, fingerprint="SHA256:" + "d" * 64)


@pytest.mark.parametrize("rest", ["", "{}\n" * (1 << 19)], ids=["short", "long"])
def test_an_export_where_a_certificate_is_wanted_is_named(tmp_path: Path, rest: str) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_text('{"accountant": "x", "format": "weir-ledger-export-4"}\n' + rest)
    with pytest.raises(CertificateError, match="is a ledger export, not a privacy certificate"):
        check_certificate(path)


def read_metrics(path: Path) -> object:
    return read_run_folder(path.parent).curves


def read_federation(path: Path) -> object:
    return FederationFolder(path.parent).load()


DOCUMENTS: dict[str, tuple[str, Any, Callable[[Path], object]]] = {
    "credentials": ("c.json", CREDENTIALS, load_credentials),
    "certificate": ("c.json", json.loads(signed(STATEMENT)), read_statement),
    "evaluation": ("e.json", EVALUATION, load_point),
    "federation": ("federation.json", FEDERATION, read_federation),
    "metrics": ("metrics.jsonl", UPDATE, read_metrics),
}  # fmt: skip


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_spoilt_document_is_a_named_problem(tmp_path: Path, kind: str) -> None:
    name, document, read = DOCUMENTS[kind]
    path = tmp_path / name
    path.write_bytes(json.dumps(document).encode() + b"\n")
    read(path)
    (tmp_path / "metrics.jsonl").touch()
    refused = 0
    for content in spoilt(document):
        path.write_bytes(content + b"\n")
        error = problem(AnalystError, lambda: read(path))
        if error is not None:  # some changes are none, such as another name
            refused += 1
            assert str(path) in error.message
            assert error.remedy
    assert refused > 40


def test_anybody_can_sign_anything_so_a_statement_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "certificate.json"
    refused = 0
    for content in spoilt(STATEMENT):
        try:
            statement = json.loads(content)
        except (ValueError, RecursionError):
            continue
        path.write_bytes(signed(statement))
        refused += problem(CertificateError, lambda: read_statement(path)) is not None
    assert refused > 100
    path.write_bytes(signed(STATEMENT | {"ledger_head": {"sequence": -5, "digest": ""}}))
    with pytest.raises(CertificateError, match=r"ledger_head\.sequence: should be greater than"):
        read_statement(path)


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    store = CheckpointStore(tmp_path / "checkpoints")
    manifest = Manifest(run_id="r", num_updates=3, next_step=4, num_steps=9, finished=False,
                        dataset=FACTS, recipe={})  # fmt: skip
    store.save({"x": torch.zeros(3)}, manifest)
    return store


def test_a_checkpoint_s_record_is_checked_field_by_field(store: CheckpointStore) -> None:
    (path,) = store.directory.glob("*.json")
    record = json.loads(path.read_bytes())
    assert store.load()[1].num_updates == 3
    for content in spoilt(record):
        path.write_bytes(content)
        error = problem(CheckpointError, store.load)
        if error is None:
            manifest = store.manifest()
            assert manifest.num_updates >= 0
            assert manifest.next_step >= 1
            assert manifest.dataset["channels"] >= 1
        else:
            assert str(path) in error.message
            assert "start a new run" in error.remedy
    for field, value, words in (
        ("num_updates", -5, "num_updates: should be greater than or equal to 0"),
        ("num_updates", "three", "num_updates: should be a valid integer"),
        ("next_step", 10**30, "next_step: should be less than"),
        ("dataset", FACTS | {"height": 1 << 40}, "dataset.*: no image has so many pixels"),
        ("tensors", "../../etc/passwd", "tensors: String should match"),
    ):
        path.write_text(json.dumps(record | {field: value}))
        with pytest.raises(CheckpointError, match=words):
            store.load()


def test_an_embedding_s_description_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "e.safetensors"
    facts = FACTS | {"nominal_size": 9, "capacity": 5, "epsilon": 1.0, "delta": 1e-5}
    words = {"format": "weir-embedding-1", "run_id": "r", "parameters": "{}"}

    def read(dataset: str, **other: str) -> ImageFacts:
        metadata = words | {"dataset": dataset} | other
        save_file({"sums": torch.zeros(2, 3)}, path, metadata=metadata)
        return load_embedding(path).facts

    assert read(json.dumps(facts)).classes == ("a", "b")
    refused = 0
    for content in spoilt(facts):
        text = content.decode("utf-8", "replace")
        error = problem(AnalystError, lambda: read(text))  # noqa: B023 - called at once
        if error is not None:
            refused += 1
            assert "Download it again" in error.remedy
    assert refused > 60
    with pytest.raises(AnalystError, match="cannot read the embedding"):
        read(json.dumps(facts), parameters="[]")


@pytest.mark.parametrize(
    "read",
    [load_credentials, read_statement, load_point, load_federation,
     lambda path: load_recipe(str(path))],
)  # fmt: skip
def test_an_endless_file_is_refused(tmp_path: Path, read: Callable[[Path], object]) -> None:
    path = tmp_path / "endless.toml"
    path.symlink_to("/dev/zero")
    with pytest.raises(AnalystError, match="so it is another file"):
        read(path)


@pytest.mark.parametrize("read", [load_federation, lambda path: load_recipe(str(path))])
def test_brackets_without_end_are_no_fault(tmp_path: Path, read: Callable[[Path], object]) -> None:
    path = tmp_path / "deep.toml"
    path.write_text("a = " + "[" * 50_000)
    with pytest.raises(AnalystError, match="TOML"):
        read(path)
