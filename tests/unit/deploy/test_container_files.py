"""The Dockerfile, the compose file and what the builder may see, read as data."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
USER = "10001:10001"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    found: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return found


def _stages() -> dict[str, list[tuple[str, str]]]:
    """Return the instructions of every stage of the Dockerfile, by the stage's name."""
    text = re.sub(r"(?m)^\s*#.*\n", "", (ROOT / "deploy" / "Dockerfile").read_text())
    stages: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for line in text.replace("\\\n", " ").splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            name = rest.split(" AS ")[1]
            stages[name] = [(word, rest)]
        elif word:
            stages[name].append((word, " ".join(rest.split())))
    return stages


def _one(stage: str, word: str) -> str:
    (value,) = (rest for found, rest in _stages()[stage] if found == word)
    return value


@pytest.mark.parametrize("target", ["curator", "analyst"])
def test_both_images_run_as_the_same_fixed_user(target: str) -> None:
    assert _one(target, "USER") == USER
    assert _one(target, "FROM") == f"base AS {target}"


def test_torch_is_the_version_of_the_constraints() -> None:
    run = " ".join(rest for stage in _stages().values() for word, rest in stage if word == "RUN")
    installs = re.findall(r"pip install [^&]*", run)
    assert len(installs) == 3
    assert all("--constraint /opt/weir/constraints.txt" in install for install in installs)
    assert re.search(r"(?m)^torch==", (ROOT / "constraints.txt").read_text())


def test_compose_asks_for_health_as_the_image_does(services: dict[str, Any]) -> None:
    health = services["curator"]["healthcheck"]
    options, command = _one("curator", "HEALTHCHECK").split(" CMD ")
    assert ["CMD", *json.loads(command)] == health["test"]
    assert options.split() == [
        f"--{key.replace('_', '-')}={health[key]}"
        for key in ("interval", "timeout", "start_period", "retries")
    ]


@pytest.mark.parametrize("name", ["curator", "analyst"])
def test_each_service_is_confined(services: dict[str, Any], name: str) -> None:
    service = services[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["tmpfs"][0].startswith("/tmp:")  # noqa: S108 - inside the container
    assert not {"privileged", "cap_add", "devices", "network_mode", "pid"} & set(service)
    assert service["build"]["target"] == name


def test_ports_are_published_on_loopback_only(services: dict[str, Any]) -> None:
    ports = services["curator"]["ports"]
    assert [port.rpartition(":")[2] for port in ports] == _one("curator", "EXPOSE").split()
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert "ports" not in services["analyst"]


def test_the_analyst_sees_the_credentials_and_never_the_data(services: dict[str, Any]) -> None:
    assert services["analyst"]["volumes"] == ["credentials:/credentials:ro", "runs:/runs"]
    assert "curator-data:/data" in services["curator"]["volumes"]
    assert services["analyst"]["profiles"]
    assert "profiles" not in services["curator"]


def test_the_services_name_is_in_the_certificate(services: dict[str, Any]) -> None:
    names = services["curator"]["environment"]["WEIR_HOST_NAMES"]
    assert names.split()[0] == "curator"
    assert "WEIR_HOST_NAMES=curator" in _one("curator", "ENV")


def test_the_builder_sees_the_sources_only() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    allowed = {rule[1:] for rule in rules if rule.startswith("!")}
    assert allowed == {
        *("LICENSE", "README.md", "constraints.txt", "pyproject.toml"),
        *("analyst", "audit", "curator", "proofs", "protos", "deploy", "deploy/image"),
    }
    for private in ("ledger.sqlite", "server.key", "ca.pem", "images.npz"):
        assert any(fnmatch(f"curator/{private}", rule) for rule in rules[1:])
