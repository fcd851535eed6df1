"""The overlays of docker-compose.yml, read as data: who reaches whom, and where the secrets are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[3]
CONFINED = ("read_only", "cap_drop", "security_opt")


def compose(name: str = "") -> dict[str, Any]:
    """Return one compose file; a reset is the empty value behind it."""
    text = (ROOT / f"docker-compose{name and '.'}{name}.yml").read_text()
    found: dict[str, Any] = yaml.safe_load(text.replace("!reset ", ""))
    return found


@pytest.fixture(scope="module")
def postgres() -> dict[str, Any]:
    return compose("postgres")


def test_only_the_curators_share_a_network_with_the_database(postgres: dict[str, Any]) -> None:
    services = postgres["services"]
    on_it = {name for name, service in services.items() if "ledger" in service["networks"]}
    assert on_it == {"postgres", "curator", "curator-2"}
    assert services["postgres"]["networks"] == ["ledger"]
    assert postgres["networks"]["ledger"] == {"internal": True}
    assert "ports" not in services["postgres"]


def test_the_analyst_reaches_the_gate_alone_under_the_curators_name(
    postgres: dict[str, Any],
) -> None:
    services = postgres["services"]
    assert services["analyst"] == {"networks": ["front"]}
    on_it = {name for name, service in services.items() if "front" in service["networks"]}
    assert on_it == {"gate", "analyst"}
    assert services["gate"]["networks"]["front"]["aliases"] == ["curator"]
    assert services["gate"]["ports"] == compose()["services"]["curator"]["ports"]
    assert services["curator"]["ports"] == []
    assert "ports" not in services["curator-2"]


def test_the_gate_asks_the_replicas_by_names_that_they_have(postgres: dict[str, Any]) -> None:
    gate = (ROOT / "deploy" / "gate" / "haproxy.cfg").read_text()
    servers = dict(re.findall(r"server (\S+) (\S+):50051", gate))
    aliases = [
        postgres["services"][name]["networks"]["replicas"]["aliases"]
        for name in ("curator", "curator-2")
    ]
    assert [[name] for name in servers.values()] == aliases
    assert "httpchk" in gate
    assert "ssl crt" not in gate  # TLS passes through


def test_the_second_replica_is_the_first_with_a_folder_of_its_own(
    postgres: dict[str, Any],
) -> None:
    first, second = compose()["services"]["curator"], postgres["services"]["curator-2"]
    same = (*CONFINED, "tmpfs", "pids_limit", "healthcheck", "image", "stop_grace_period")
    assert {key: second[key] for key in same} == {key: first[key] for key in same}
    assert second["environment"]["WEIR_HOST_NAMES"] == first["environment"]["WEIR_HOST_NAMES"]
    shared = postgres["services"]["curator"]["volumes"]
    assert shared == ["identity:/data/identity", "datasets:/data/datasets"]
    assert second["volumes"] == ["curator-2-data:/data", *shared]
    assert second["depends_on"]["curator"] == {"condition": "service_healthy"}


def test_passwords_are_files_and_never_in_an_address(postgres: dict[str, Any]) -> None:
    for name in ("curator", "curator-2"):
        service = postgres["services"][name]
        file = service["environment"]["WEIR_LEDGER_PASSWORD_FILE"]
        assert file == f"/run/secrets/{service['secrets'][0]}"
        assert not re.search(r"//[^/]*:[^/]*@", service["environment"]["WEIR_LEDGER_URL"])
    for overlay in (postgres, compose("monitoring")):
        assert all(set(secret) == {"file"} for secret in overlay["secrets"].values())


def test_a_volume_that_covers_a_folder_is_owned_by_the_curators_user() -> None:
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text().replace("\\\n", " ")
    made = {
        folder
        for line in re.findall(r"install --directory --owner=weir (.*)", dockerfile)
        for folder in re.findall(r"\s(/\S+)", line)
    }
    for name in ("", "postgres", "monitoring"):
        services = compose(name)["services"]
        for service in ("curator", "curator-2"):
            for volume in services.get(service, {}).get("volumes", []):
                assert volume.split(":")[1] in made


@pytest.mark.parametrize("name", ["postgres", "monitoring"])
def test_every_service_of_an_overlay_is_confined(name: str) -> None:
    base = set(compose()["services"])
    for service_name, service in compose(name)["services"].items():
        if service_name not in base:
            assert service["read_only"] is True
            assert service["cap_drop"] == ["ALL"]
            assert service["security_opt"] == ["no-new-privileges:true"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
        assert not {"privileged", "cap_add", "network_mode", "pid"} & set(service)


def test_monitoring_is_not_on_the_analysts_network() -> None:
    overlay = compose("monitoring")
    for name in ("prometheus", "grafana"):
        assert overlay["services"][name]["networks"] == ["monitoring"]
    assert set(overlay["services"]["curator"]["networks"]) == {"default", "monitoring"}
    assert "analyst" not in overlay["services"]


def test_what_is_mounted_from_here_exists() -> None:
    for name in ("postgres", "monitoring"):
        for service in compose(name)["services"].values():
            for volume in service.get("volumes", []):
                if volume.startswith("./"):
                    assert (ROOT / volume.split(":")[0]).is_file(), volume


def test_the_gpu_overlay_changes_the_image_its_torch_and_the_devices_only() -> None:
    overlay = compose("gpu")
    assert set(overlay["services"]) == {"curator", "analyst"}
    for name, service in overlay["services"].items():
        assert set(service) == {"image", "build", "environment", "deploy"}
        assert service["image"] == f"weir-{name}-cuda"
        (device,) = service["deploy"]["resources"]["reservations"]["devices"]
        assert device["capabilities"] == ["gpu"]
        assert "TORCH_INDEX_URL" in service["build"]["args"]
