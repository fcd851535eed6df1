"""schemathesis over the REST schema: never a 5xx, always what the schema says, nothing written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import requests
import schemathesis
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.e2e.identity_doors import Doors, metadata, serving

pytestmark = pytest.mark.e2e

CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXAMPLES = 60
MODES = list(schemathesis.GenerationMode)


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with serving(tmp_path_factory.mktemp("rest") / "curator") as doors:
        yield doors


@pytest.mark.parametrize("who", ["alice", "auditor", "nobody"])
def test_every_answer_is_documented(doors: Doors, who: str) -> None:
    address = f"https://localhost:{doors.curator.rest.port}"
    authority: Path = doors.folder.identity / "ca.pem"
    headers = {} if who == "nobody" else dict(metadata(doors.credentials(who)))
    head = doors.curator.ledger.head()
    with requests.Session() as session:
        session.trust_env, session.verify = False, str(authority)
        schema = schemathesis.openapi.from_dict(session.get(f"{address}/openapi.json").json())
        cases = [
            cast("Any", operation).ok().as_strategy(generation_mode=mode)
            for operation in schema.get_all_operations()
            for mode in MODES
        ]

        @settings(max_examples=EXAMPLES, deadline=None, phases=[Phase.generate], database=None)
        @given(case=st.one_of(cases))
        def ask(case: Any) -> None:
            response = case.call(
                base_url=address, session=session, headers=headers, verify=str(authority)
            )
            case.validate_response(response, checks=CHECKS)
            if response.status_code >= 400:
                assert response.headers["content-type"] == ["application/problem+json"]
                assert response.json()["remedy"]

        ask()
    assert doors.curator.ledger.head() == head
