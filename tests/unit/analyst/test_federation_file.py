"""Several curators in a TOML file or on the command line: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyst.cli import ExitCode, main
from analyst.cli.access import Access, RuleOptions
from analyst.errors import FederationError
from analyst.training.federation.config import load_federation
from analyst.training.federation.folder import FederationFolder
from analyst.training.federation.rounds import Combine, OnLoss

WHOLE = """
combine = "round-robin"
on_loss = "continue"

[[curator]]
name = "north"
address = "north.example.org:50051"
credentials = "north.json"
dataset = "scans"
weight = 2.0

[[curator]]
address = "unix:/run/weir.sock"
insecure_loopback = true
"""


def _write(folder: Path, text: str) -> Path:
    path = folder / "federation.toml"
    path.write_text(text)
    return path


def test_a_file_is_read_and_its_paths_are_seen_from_its_folder(tmp_path: Path) -> None:
    config = load_federation(_write(tmp_path, WHOLE))
    north, local = config.curator
    assert (config.combine, config.on_loss) == (Combine.ROUND_ROBIN, OnLoss.CONTINUE)
    assert (north.label, north.dataset, north.weight) == ("north", "scans", 2.0)
    assert north.credentials == tmp_path / "north.json"
    assert (local.label, local.dataset, local.weight) == ("unix:/run/weir.sock", None, 1.0)


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("weight = 2.0", "weight = 0.0", "curator.0.weight"),
        ("weight = 2.0", "wieght = 2.0", "wieght"),
        ("org:50051", "org", "curator.0.address: 'north.example.org': HOST:PORT is needed"),
        ("north.example.org:50051", "", "curator.0.address: '': HOST:PORT is needed"),
        ("round-robin", "median", "combine"),
        ("insecure_loopback = true", "", "has no credentials"),
        ("[[curator]]", "[curator", "not a federation in TOML"),
        ('"unix:/run/weir.sock"', '"unix:/run/weir.sock"\nname = "north"', "called north"),
    ],
)
def test_a_mistake_in_a_file_is_named(tmp_path: Path, before: str, after: str, text: str) -> None:
    with pytest.raises(FederationError, match=text):
        load_federation(_write(tmp_path, WHOLE.replace(before, after)))


@pytest.mark.parametrize("text", ["", "curator = []", "curator = 3"])
def test_a_file_without_curators_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(FederationError):
        load_federation(_write(tmp_path, text))
    with pytest.raises(FederationError, match="cannot read"):
        load_federation(tmp_path / "nothing.toml")


def test_wrong_addresses_are_all_that_is_told(tmp_path: Path) -> None:
    file = _write(tmp_path, WHOLE.replace(":50051", "").replace("unix:", ""))
    with pytest.raises(FederationError) as caught:
        load_federation(file)
    assert str(caught.value).count("HOST:PORT is needed") == 2
    assert "at least 1 item" not in str(caught.value)


def test_one_data_set_of_one_curator_is_named_once(tmp_path: Path) -> None:
    one = '[[curator]]\nname = "{}"\naddress = "a:1"\ninsecure_loopback = true\ndataset = "{}"\n'
    load_federation(_write(tmp_path, one.format("p", "x") + one.format("q", "y")))
    with pytest.raises(FederationError, match="spent twice"):
        load_federation(_write(tmp_path, one.format("p", "x") + one.format("q", "x")))


def test_options_win_over_the_file(tmp_path: Path) -> None:
    file = str(_write(tmp_path, WHOLE))
    access = Access(federation=Path(file))
    rule = RuleOptions(combine=Combine.MEAN, on_loss=OnLoss.STOP)
    config = access.several(rule)
    assert config is not None
    assert (config.combine, config.on_loss) == (Combine.MEAN, OnLoss.STOP)
    assert access.words(rule) == f"--federation {file} --on-loss stop"


def test_curators_and_credentials_are_paired_in_order() -> None:
    access = Access(curator=["a:1", "b:2"], credentials=[Path("a.json"), Path("b.json")])
    config = access.several()
    assert config is not None
    assert [(m.address, str(m.credentials)) for m in config.curator] == [
        ("a:1", "a.json"),
        ("b:2", "b.json"),
    ]
    options = "--curator a:1 --curator b:2 --credentials a.json --credentials b.json"
    assert access.words() == options
    assert Access(curator=["a:1"], credentials=[Path("a")]).several() is None


def test_access_can_be_typed_again_when_a_path_has_a_blank() -> None:
    access = Access(curator=["unix:/a b"], credentials=[Path("my key.json")])
    assert access.words() == "--curator 'unix:/a b' --credentials 'my key.json'"


@pytest.mark.parametrize(
    "options",
    [
        "--curator a:1 --curator b:2 --credentials a.json",
        "--curator a:1 --credentials a.json --credentials b.json",
        "--curator a:1 --curator b:2",
        "--federation f.toml --curator a:1 --credentials a.json",
        "--federation f.toml --credentials a.json",
        "",
    ],
)
def test_what_does_not_pair_is_a_usage_error(options: str) -> None:
    assert main(["runs", *options.split()]) == ExitCode.USAGE


def test_a_damaged_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FederationError, match="holds no run of several"):
        FederationFolder(tmp_path).load()
    for text in ("", "{}", '{"format": 2}', '{"format": 1, "combine": "mean"}'):
        (tmp_path / "federation.json").write_text(text)
        with pytest.raises(FederationError):
            FederationFolder(tmp_path).load()
