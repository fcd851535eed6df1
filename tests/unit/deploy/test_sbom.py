"""The bill of materials is CycloneDX, and lists what is there."""

from __future__ import annotations

import importlib.util
import json
import runpy
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "deploy" / "image" / "sbom.py"


@pytest.mark.skipif(importlib.util.find_spec("cyclonedx_py") is None, reason="needs cyclonedx-bom")
def test_it_lists_every_package_with_its_version(tmp_path: Path) -> None:
    out = tmp_path / "weir.cdx.json"
    done = subprocess.run(
        [sys.executable, str(PROGRAM), sys.executable, str(out)],
        check=True, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    bill = json.loads(out.read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    listed = {one["name"].lower().replace("_", "-"): one for one in bill["components"]}
    for name in ("torch", "grpcio", "dp-accounting", "sqlalchemy", "weir-dp"):
        assert listed[name]["version"] == version(name)
    assert listed["grpcio"]["purl"].startswith("pkg:pypi/grpcio@")
    assert f"{len(bill['components'])} components" in done.stdout
    references = [one["bom-ref"] for one in bill["components"]]
    assert len(references) == len(set(references))


def test_debian_s_packages_are_components_too() -> None:
    program = runpy.run_path(str(PROGRAM))
    listing = (
        "libc6\t2.36-9+deb12u7\tamd64\tinstalled\n"
        "gone\t1.0\tall\tconfig-files\n"
        "libstdc++6\t12.2.0-14\tamd64\tinstalled\n"
        "\n"
    )
    first, second = program["debian_packages"](listing, "debian-12")
    assert first["purl"] == "pkg:deb/debian/libc6@2.36-9%2Bdeb12u7?arch=amd64&distro=debian-12"
    assert first["bom-ref"] == first["purl"]
    assert second["name"] == "libstdc++6"
    assert "libstdc%2B%2B6" in second["purl"]


def test_wrong_arguments_are_a_usage_error() -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM)], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "usage" in done.stderr


def test_the_script_lists_both_images_and_changes_neither() -> None:
    stages = (ROOT / "deploy" / "Dockerfile.sbom").read_text()
    script = (ROOT / "deploy" / "sbom.sh").read_text()
    assert "FROM ${IMAGE} AS listed" in stages
    assert "FROM scratch AS sbom" in stages
    assert "COPY deploy/image/sbom.py" in stages  # .dockerignore lets it through
    assert "!deploy/image" in (ROOT / ".dockerignore").read_text()
    assert "--target sbom" in script
    for image in ("curator", "analyst"):
        assert f"list {image} " in script
    subprocess.run(["sh", "-n", str(ROOT / "deploy" / "sbom.sh")], check=True, timeout=60)
