"""The steward's commands about public networks, and plans of runs on them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from curator.cli import ExitCode, main
from curator.mechanisms import public_networks
from curator.privacy.batches import ImageSpace
from tests.fakes.networks import PARAMETERS, digest, tiny_shape, weights_of

GIVEN = ["--architecture", "lenet-features", "--origin", "a test"]


def add(folder: Path, name: str, *more: str) -> int:
    source = folder / "weights.safetensors"
    source.write_bytes(weights_of(tiny_shape()))
    return main(["network", "add", name, str(source), "--dir", str(folder / "weir"), *more])


def test_a_network_is_declared_added_and_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path
    assert main(["init", str(folder / "weir"), "--quiet"]) == 0
    at, sha256 = ["--dir", str(folder / "weir")], digest(weights_of(tiny_shape()))
    assert main(["network", "list", *at]) == 0
    assert "no networks; add one with 'curator network add'" in capsys.readouterr().out
    assert add(folder, "drawn", *GIVEN) == ExitCode.USAGE
    assert "add --declare-public" in capsys.readouterr().err
    assert add(folder, "drawn", *GIVEN, "--declare-public") == 0
    assert sha256 in capsys.readouterr().out
    assert main(["network", "list", *at, "--json"]) == 0
    (card,) = json.loads(capsys.readouterr().out)
    assert (card["name"], card["sha256"], card["origin"]) == ("drawn", sha256, "a test")
    assert card["declared"] == PARAMETERS["network_declared"]
    assert add(folder, "drawn", *GIVEN, "--declare-public", "--json") == 0
    assert not json.loads(capsys.readouterr().out)["changed"]


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("Drawn", GIVEN, "is no name"),
        ("other", ["--architecture", "mlp-features", "--origin", "a test"], "hidden.weight"),
        ("other", ["--architecture", "vgg16", "--origin", "a test"], "fold_network.py"),
        ("other", ["--architecture", "lenet-features", "--origin", ""], "--origin must have"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_added(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, given: list[str], words: str
) -> None:
    assert add(folder, name, *given, "--declare-public") == ExitCode.FAILED
    assert words in capsys.readouterr().err
    assert not (folder / "weir" / "networks" / f"{name}.json").exists()


def test_a_steward_s_plan_finds_the_network(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(public_networks, "_chosen", {})
    space = ImageSpace(channels=1, height=8, width=8, max_level=255, num_classes=3)
    source, at = folder / "larger.safetensors", ["--dir", str(folder / "weir")]
    source.write_bytes(weights_of(tiny_shape(space)))
    argv = ["network", "add", "planned", str(source), *at, *GIVEN, "--declare-public"]
    assert main(argv) == 0
    quiet = {"noise_multiplier": 9.0, "refinements": [], "moment_noise_multiplier": 9.0}
    own = {"network": "planned", "network_sha256": digest(source.read_bytes())}
    recipe = folder / "statistics.toml"

    def plan(**changes: str) -> int:
        asked = PARAMETERS | own | quiet | changes
        lines = [f"{key} = {json.dumps(value)}" for key, value in asked.items()]
        recipe.write_text("\n".join(["[mechanism]", 'kind = "feature-statistics"', *lines, ""]))
        return main(["plan", "cats", str(recipe), *at])

    assert plan() == 0
    assert plan(network="missing") == ExitCode.FAILED
    assert "curator network list" in capsys.readouterr().err
