"""Every metric that the scrape configuration, the alerts and the dashboard name exists."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from curator.rest.authentication import PERMISSIONS
from curator.rest.figures import NEARLY
from curator.service.caller import Role
from curator.telemetry.names import METRICS, Kind

FOLDER = Path(__file__).parents[3] / "deploy" / "monitoring"
EXPOSED = {
    f"{metric.name}_bucket" if metric.kind is Kind.HISTOGRAM else metric.name: metric
    for metric in METRICS.values()
}
SELECTOR = re.compile(r"\b(weir_\w+)(?:\{([^}]*)\})?")


def _yaml(name: str) -> Any:
    return pytest.importorskip("yaml").safe_load((FOLDER / name).read_text())


def _rules() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _yaml("alerts.yml")["groups"][0]["rules"]
    return found


def _panels() -> list[dict[str, Any]]:
    text = (FOLDER / "grafana-dashboard.json").read_text()
    found: list[dict[str, Any]] = json.loads(text)["panels"]
    return found


def _check(expression: str) -> set[str]:
    """Return the metrics of an expression, whose names and labels must be listed."""
    names = set()
    for name, selected in SELECTOR.findall(expression):
        metric = EXPOSED[name]
        assert set(re.findall(r"(\w+)\s*[=!]", selected)) <= set(metric.labels)
        if metric.kind is Kind.COUNTER:
            assert re.search(rf"(rate|increase)\({name}", expression), expression
        names.add(name)
    return names


def test_alerts_name_metrics_that_exist() -> None:
    used = {rule["alert"]: _check(rule["expr"]) for rule in _rules()}
    assert used["WeirBudgetNearlySpent"] == {
        "weir_dataset_epsilon_reserved",
        "weir_dataset_epsilon_cap",
    }
    assert "weir_ledger_failures_total" in used["WeirLedgerFailing"]
    for rule in _rules():
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert set(rule["annotations"]) == {"summary", "description"}


def test_the_alert_and_the_dashboard_agree_on_nearly() -> None:
    (rule,) = [rule for rule in _rules() if rule["alert"] == "WeirBudgetNearlySpent"]
    assert float(rule["expr"].split(">")[1]) == NEARLY


def test_the_scrape_asks_where_an_auditor_may() -> None:
    config = _yaml("prometheus.yml")
    (job,) = config["scrape_configs"]
    assert Role.AUDITOR in PERMISSIONS[job["metrics_path"]]
    assert job["scheme"] == "https"
    assert "insecure_skip_verify" not in str(job)
    files = {job["authorization"]["credentials_file"], job["tls_config"]["ca_file"]}
    assert files == {"/scrape/token", "/scrape/ca.pem"}  # as deploy/image/scrape_credentials.py
    assert config["rule_files"] == ["alerts.yml"]


def test_the_dashboard_shows_metrics_that_exist_and_misses_little() -> None:
    used: set[str] = set()
    for panel in _panels():
        assert panel["description"]
        for target in panel["targets"]:
            found = _check(target["expr"])
            assert found, target["expr"]
            used |= found
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                assert any(label in (*EXPOSED[name].labels, "le") for name in found)
    shown_elsewhere = {
        "weir_dataset_epsilon_registered",
        "weir_dataset_active",
        "weir_dataset_in_service",
        "weir_ledger_readable",
        "weir_requests_total",
    }
    assert used == set(EXPOSED) - shown_elsewhere
    assert len({panel["id"] for panel in _panels()}) == len(_panels())
