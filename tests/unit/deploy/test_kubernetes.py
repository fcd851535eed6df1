"""The manifests, read as data: confined pods, one writer, closed networks, no secret in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

FOLDER = Path(__file__).parents[3] / "deploy" / "kubernetes"
VARIANTS = ("sqlite", "postgres")
CURATOR = {"app.kubernetes.io/name": "weir", "app.kubernetes.io/component": "curator"}
LEDGER = {**CURATOR, "app.kubernetes.io/component": "ledger"}


def read(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


def resources(folder: Path) -> list[dict[str, Any]]:
    """Return every manifest that a kustomization names."""
    (kustomization,) = read(folder / "kustomization.yaml")
    found: list[dict[str, Any]] = []
    for name in kustomization["resources"]:
        path = (folder / name).resolve()
        found += resources(path) if path.is_dir() else read(path)
    return found


def of_kind(variant: str, kind: str) -> list[dict[str, Any]]:
    return [one for one in resources(FOLDER / variant) if one["kind"] == kind]


def stateful_set(variant: str, name: str = "curator") -> dict[str, Any]:
    (found,) = [s for s in of_kind(variant, "StatefulSet") if s["metadata"]["name"] == name]
    return found


@pytest.mark.parametrize("folder", ["base", *VARIANTS])
def test_every_manifest_of_a_folder_is_applied(folder: str) -> None:
    (kustomization,) = read(FOLDER / folder / "kustomization.yaml")
    listed = {name for name in kustomization["resources"] if name.endswith(".yaml")}
    there = {path.name for path in (FOLDER / folder).glob("*.yaml")} - {"kustomization.yaml"}
    assert listed == there


def test_a_ledger_in_a_file_has_one_writer() -> None:
    found = stateful_set("sqlite")["spec"]
    assert found["replicas"] == 1
    (claim,) = found["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert stateful_set("postgres")["spec"]["replicas"] == 2
    assert stateful_set("postgres")["spec"]["podManagementPolicy"] == "OrderedReady"


@pytest.mark.parametrize(
    ("variant", "name"), [("sqlite", "curator"), ("postgres", "curator"), ("postgres", "ledger")]
)
def test_a_pod_is_confined(variant: str, name: str) -> None:
    pod = stateful_set(variant, name)["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_curator_is_asked_over_tls_whether_it_lives_and_takes_steps(variant: str) -> None:
    (container,) = stateful_set(variant)["spec"]["template"]["spec"]["containers"]
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        asked = container[probe]["httpGet"]
        assert (asked["scheme"], asked["path"], asked["port"]) == ("HTTPS", path, "health")
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"grpc": 50051, "rest": 8080, "health": 8081}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_variants_differ_by_the_ledger_only(variant: str) -> None:
    container = stateful_set(variant)["spec"]["template"]["spec"]["containers"][0]
    other = stateful_set("sqlite")["spec"]["template"]["spec"]["containers"][0]
    differing = {"env", "volumeMounts"}
    assert {k: v for k, v in container.items() if k not in differing} == {
        k: v for k, v in other.items() if k not in differing
    }


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_is_open_that_is_not_named(variant: str) -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in of_kind(variant, "NetworkPolicy")}
    assert policies["nothing"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    (rule,) = policies["analysts-reach-curators"]["ingress"]
    assert rule["from"][0]["podSelector"]["matchLabels"] == {"weir-dp/analyst": "true"}
    ways_out = [one for one in policies.values() if "egress" in one]
    assert len(ways_out) == (variant == "postgres")


def test_the_database_is_reached_by_curators_only() -> None:
    policies = [one["spec"] for one in of_kind("postgres", "NetworkPolicy")]
    (into,) = [one for one in policies if one["podSelector"].get("matchLabels") == LEDGER]
    assert into["ingress"] == [
        {
            "from": [{"podSelector": {"matchLabels": CURATOR}}],
            "ports": [{"port": 5432, "protocol": "TCP"}],
        }
    ]
    assert stateful_set("postgres", "ledger")["spec"]["template"]["metadata"]["labels"] == LEDGER


@pytest.mark.parametrize("variant", VARIANTS)
def test_services_find_the_pods(variant: str) -> None:
    labels = [
        one["spec"]["template"]["metadata"]["labels"] for one in of_kind(variant, "StatefulSet")
    ]
    for service in of_kind(variant, "Service"):
        assert service["spec"]["selector"] in labels
    (curator,) = [s for s in of_kind(variant, "Service") if s["metadata"]["name"] == "curator"]
    assert curator["spec"]["sessionAffinity"] == "ClientIP"


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_secret_is_in_a_file(variant: str) -> None:
    assert not of_kind(variant, "Secret")
    for config in of_kind(variant, "ConfigMap"):
        assert "@" in config["data"]["url"]
        assert ":" not in config["data"]["url"].split("//")[1].split("@")[0]
