"""A browser with a client certificate needs no session; one without its tables is a stranger."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.identity_doors import Doors, serving

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with serving(tmp_path_factory.mktemp("pages") / "curator") as doors:
        yield doors


def ask(doors: Doors, path: str, pem: Path | None) -> tuple[int, str]:
    tls = ssl.create_default_context(cafile=str(doors.folder.identity / "ca.pem"))
    if pem is not None:
        tls.load_cert_chain(pem)
    connection = http.client.HTTPSConnection("localhost", doors.curator.rest.port, context=tls)
    connection.request("GET", path, headers={"Accept": "text/html"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def certificate(doors: Doors, name: str) -> Path:
    content = doors.credentials(name)
    pem = doors.folder.root / f"{name}.pem"
    pem.write_text(content["client_certificate"] + content["client_key"])
    return pem


def test_a_certificate_opens_the_pages_until_it_is_revoked(doors: Doors) -> None:
    pem = certificate(doors, "carol-certificate")
    status, text = ask(doors, "/", pem)
    assert status == 200
    assert "carol-certificate" in text
    assert "Sign out" not in text
    assert ask(doors, "/", None)[0] == 303
    doors.folder.tokens.revoke("carol-certificate")
    assert ask(doors, "/", pem)[0] == 303


def test_an_auditor_s_certificate_opens_the_metrics(doors: Doors) -> None:
    status, text = ask(doors, "/metrics", certificate(doors, "auditor-certificate"))
    assert status == 200
    assert 'weir_dataset_epsilon_cap{dataset="digits"} 10.0\n' in text
    assert ask(doors, "/metrics", certificate(doors, "dora-certificate"))[0] == 403
