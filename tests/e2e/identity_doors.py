"""One curator with both gRPC ports and REST, and the ways to knock at it."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from curator.config import CuratorConfig, GrpcSection, RestSection
from curator.folder import CuratorFolder
from curator.process.bootstrap import ServingCurator, create_curator
from curator.service.caller import Role
from protos.weir.v1 import refusal_pb2, service_pb2_grpc
from tests.e2e.conftest import digits_folder, socket_of


@dataclass(frozen=True, kw_only=True)
class Refused:
    """Everything of a refused call that the caller sees, without the request id."""

    code: grpc.StatusCode
    words: str
    refusal: refusal_pb2.Refusal
    metadata: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, kw_only=True)
class Doors:
    folder: CuratorFolder
    curator: ServingCurator

    def credentials(self, name: str) -> dict[str, Any]:
        """Return a caller's credentials; both kinds are made on first use."""
        path = self.folder.root / "analysts" / f"{name}.credentials.json"
        if name == "steward":
            path = self.folder.identity / "steward.credentials.json"
        if not path.exists():
            role = Role.AUDITOR if name.startswith("auditor") else Role.ANALYST
            self.folder.add_analyst(name, path, role=role, certificate="certificate" in name)
        content: dict[str, Any] = json.loads(path.read_text())
        return content

    @contextmanager
    def grpc(self, content: dict[str, Any]) -> Iterator[service_pb2_grpc.WeirServiceStub]:
        """Connect with a certificate or without, as the credentials are."""
        root = (self.folder.identity / "ca.pem").read_bytes()
        key, chain = content.get("client_key"), content.get("client_certificate")
        rpc = self.curator.rpc
        port = rpc.port if chain is None else rpc.certificate_port
        credentials = grpc.ssl_channel_credentials(
            root, None if key is None else key.encode(), None if chain is None else chain.encode()
        )
        with grpc.secure_channel(f"localhost:{port}", credentials) as channel:
            yield service_pb2_grpc.WeirServiceStub(channel)

    def rest(self, path: str, content: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Ask over HTTPS; the answer is given without the request id."""
        tls = ssl.create_default_context(cafile=str(self.folder.identity / "ca.pem"))
        if "client_certificate" in content:
            pem = self.folder.root / f"{content['analyst']}.pem"
            pem.write_text(content["client_certificate"] + content["client_key"])
            tls.load_cert_chain(pem)
        request = urllib.request.Request(f"https://localhost:{self.curator.rest.port}{path}")
        for _, value in metadata(content):
            request.add_header("Authorization", value)
        try:
            with urllib.request.urlopen(request, context=tls, timeout=20) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read()) | {"instance": ""}


def metadata(content: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    token = content.get("token")
    return () if token is None else (("authorization", f"Bearer {token}"),)


def refused(call: Callable[[], Any]) -> Refused:
    """Return the refusal of a call, which must be one."""
    try:
        call()
    except grpc.RpcError as error:
        failed: Any = error
        seen = [(key, bytes(value)) for key, value in failed.trailing_metadata()]
        refusal = refusal_pb2.Refusal.FromString(dict(seen).get("weir-refusal-bin", b""))
        request_id = refusal.request_id.encode()
        refusal.ClearField("request_id")
        return Refused(
            code=failed.code(),
            words=failed.details(),
            refusal=refusal,
            metadata=tuple((key, value.replace(request_id, b"")) for key, value in seen),
        )
    raise AssertionError


@contextmanager
def serving(root: Path) -> Iterator[Doors]:
    folder = digits_folder(root)
    grpc_section = GrpcSection(port=0, certificate_port=0, unix_socket=str(socket_of(folder)))
    config = CuratorConfig(grpc=grpc_section, rest=RestSection(port=0))
    curator = create_curator(folder, config)
    curator.start()
    yield Doors(folder=folder, curator=curator)
    curator.draining.set()
    curator.wait()
