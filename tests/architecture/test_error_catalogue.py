"""Every error that a caller can meet is documented as it is, with what to do next."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from analyst import errors as analyst_errors
from analyst.client.refusals import EXHAUSTED, REFUSALS, UNAVAILABLE
from curator import errors as curator_errors
from curator.errors import CuratorError
from curator.rest.problems import STATUS
from curator.rpc.status import status_code
from tests.unit.curator.error_tree import example, tree

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "errors.md"
ENTRY = re.compile(
    r"### (?P<reason>[A-Z_]+)\n"
    r"gRPC `(?P<grpc>[A-Z_]+)`, REST `(?P<rest>\d+)`, Python `(?P<python>\w+)`\. .+\n"
    r"Next: (?P<remedy>.+)\n"
)
ENTRIES = {found["reason"]: found for found in ENTRY.finditer(PAGE.read_text())}
KINDS = [kind for kind in tree() if kind.__module__ == curator_errors.__name__]
CLIENT = {**REFUSALS, **EXHAUSTED, **UNAVAILABLE, "INTERNAL": analyst_errors.CuratorFailed}


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_of_the_curator(kind: type[CuratorError]) -> None:
    entry = ENTRIES[kind.reason]
    assert entry["grpc"] == status_code(example(kind)).name
    assert int(entry["rest"]) == STATUS[kind]
    assert entry["python"] == CLIENT[kind.reason].__name__
    assert entry["remedy"] == kind.remedy
    assert kind.public_message.endswith(".")


def test_nothing_is_documented_that_cannot_happen() -> None:
    assert set(ENTRIES) == {kind.reason for kind in KINDS}
    assert len(KINDS) == len(ENTRIES)


def test_an_error_elsewhere_in_the_curator_borrows_a_reason() -> None:
    assert {kind.reason for kind in tree()} == set(ENTRIES)


def test_every_error_of_the_client_is_documented() -> None:
    kinds = {
        name
        for name, value in vars(analyst_errors).items()
        if isinstance(value, type) and issubclass(value, analyst_errors.AnalystError)
    } - {"AnalystError"}
    text = PAGE.read_text()
    documented = {found["python"] for found in ENTRIES.values()}
    documented |= set(re.findall(r"^### (\w+)\n.+\nNext: .{20,}$", text, re.MULTILINE))
    assert kinds <= documented
