"""The command line of `analyst`: what is mistyped, what the help says, what is still accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analyst.cli import ExitCode, main
from analyst.training.checkpoint import checkpoint_store
from tests.commands import understood
from tests.fakes.barrier import FakeBarrier, FakeDataset
from tests.unit.analyst.test_cli import SMALL, TRAIN, connect_to


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--show-refusl"], "No such option: --show-refusl (Possible options: --show-refusal)"),
        (["--device=cpu", "--sed=1"], "Possible options: --seed, --set"),
        (["--zzzzzz", "1"], "No such option: --zzzzzz\n"),
        (["--curator", "localhost"], "localhost: HOST:PORT is needed, such as localhost:50051"),
    ],
)
def test_a_mistyped_option_is_told_from_its_nearest(
    capsys: pytest.CaptureFixture[str], options: list[str], text: str
) -> None:
    argv = [*TRAIN, "--recipe", "dp-sinkhorn-digits", "--out", "x", *options]
    assert main(argv) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert text in error
    assert "what to do: read 'analyst train --help', then type it again" in error


@pytest.mark.parametrize(
    ("option", "key"),
    [
        ("--lr", "optimizer.lr"),
        ("--num-critics", "mechanism.num_critics"),
        ("--noise-multipler", "mechanism.noise_multiplier"),
        ("--batch-size", "mechanism.expected_batch_size"),
    ],
)
def test_the_short_name_of_a_key_is_told_as_what_sets_it(
    capsys: pytest.CaptureFixture[str], option: str, key: str
) -> None:
    argv = [*TRAIN, "--recipe", "dp-sinkhorn-digits", "--out", "x", option, "1"]
    assert main(argv) == ExitCode.USAGE
    assert f"No such option: {option}; did you mean --set {key}=VALUE?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("optimizer.lrr=1", "optimizer.lrr: unknown key; did you mean optimizer.lr?"),
        ("mechanism.num_samples=many", "mechanism.num_samples: must be a whole number"),
        ("mechanism.noise_multiplier=inf", "mechanism.noise_multiplier: must be a finite number"),
        ("mechanism.num_samples=1e9", "mechanism.num_samples: must be a whole number"),
        ("mechanism.num_samples=0", "mechanism.num_samples: must be at least 1"),
    ],
)
@pytest.mark.parametrize(
    "command", ["train --out NEW", "plan", "embedding download --out NEW.safetensors"]
)
def test_what_is_set_wrongly_is_told_before_a_curator_is_reached(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, setting: str, words: str
) -> None:
    def unreachable(_: object) -> FakeBarrier:
        raise AssertionError

    words_of_command = command.replace("NEW", str(tmp_path / "new")).split()
    argv = [*words_of_command, *TRAIN[1:], "--recipe", "dp-sinkhorn-digits", "--set", setting]
    assert main(argv, connect=unreachable) == ExitCode.RECIPE
    assert words in capsys.readouterr().err


def test_what_a_folder_does_not_allow_is_told_before_a_curator_is_reached(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreachable(_: object) -> FakeBarrier:
        raise AssertionError

    out = ["--out", str(tmp_path / "run")]
    barrier = FakeBarrier(FakeDataset(epsilon=6.0))
    assert main([*TRAIN, *SMALL, *out, "--steps", "2"], connect=connect_to(barrier)) == 0
    fresh = [*TRAIN, *SMALL, *out]
    assert main(fresh, connect=unreachable) == ExitCode.FILES
    said = capsys.readouterr().err
    assert "already holds a run. " in said.replace("\n", " ")
    assert "to go on:" not in said
    again = [*TRAIN, "--resume", *out]
    wrong = main([*again, "--set", "session.checkpoint_every=0"], connect=unreachable)
    assert wrong == ExitCode.RECIPE
    assert "session.checkpoint_every: must be at least 1" in capsys.readouterr().err
    assert main([*again, "--set", "optimizer.lr=1"], connect=unreachable) == ExitCode.RECIPE
    assert "it cannot change optimizer.lr" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ([], "Missing command"),
        (["train"], "Missing option '--out'"),
        ([*TRAIN, "--out", "x"], "give either --recipe NAME, to start, or --resume"),
        ([*TRAIN, *SMALL, "--out", "x", "--resume"], "give either --recipe NAME"),
        (["budget", "--curator", "localhost:1"], "give --credentials FILE, or --insecure-loopback"),
        (["budget"], "give either --curator HOST:PORT or --federation FILE.toml"),
        (["embedding", "download", *TRAIN[1:], "--out", "x"], "give either --run RUN_ID"),
        (["bugdet"], "Did you mean 'budget'?"),
        (["plan", *TRAIN[1:], *SMALL, "--for-steps", "0"], "'--for-steps': must be greater than"),
        (["evaluate", "s", "--test", "t", "--classifier", "x"], "'--classifier': 'x' is not one"),
        (["plan", *TRAIN[1:], *SMALL, "--for-epsilon", "nan"], "give a number above 0"),
        (["plan", *TRAIN[1:], *SMALL, "--points", "51"], "'--points'"),
        (["plan", *TRAIN[1:], *SMALL, "--over", "time"], "'--over'"),
    ],
)
def test_usage_errors(capsys: pytest.CaptureFixture[str], argv: list[str], text: str) -> None:
    assert main(argv) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert text in error
    assert "what to do: read 'analyst" in error


def test_the_help_of_train_fits_on_two_screens(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["train", "--help"]) == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 100
    assert "analyst recipes show NAME" in " ".join(line.strip() for line in lines)


def test_every_option_of_earlier_versions_is_taken_with_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    barrier = FakeBarrier(FakeDataset(epsilon=6.0))

    def train(out: str, *options: str) -> int:
        argv = [*TRAIN, "--out", str(tmp_path / out), *options]
        return main(argv, connect=connect_to(barrier))

    assert train("old", *SMALL, "--optimizer-lr=.5", "--steps", "2") == 0
    error = capsys.readouterr().err
    (hint,) = (line for line in error.splitlines() if line.startswith("note: "))
    assert "--optimizer-lr: --set optimizer.lr=.5" in hint
    assert "--mechanism-num-samples: --set mechanism.num_samples=20" in hint
    new = [word for key in ("generator.width=8", "session.sample_every=99",
                            "mechanism.num_samples=20", "mechanism.num_debias=4",
                            "optimizer.lr=.5") for word in ("--set", key)]  # fmt: skip
    asked = [*SMALL[:2], *new, "--steps", "2"]
    assert train("new", *asked) == ExitCode.OK
    assert "note: " not in capsys.readouterr().err
    old, named = (checkpoint_store(tmp_path / one).load()[1].recipe for one in ("old", "new"))
    assert old == named
    assert old["optimizer"]["lr"] == 0.5


def test_the_keys_of_a_recipe_are_documented(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "show", "embedding-digits", "--keys"]) == ExitCode.OK
    text = capsys.readouterr().out
    assert "mechanism.bandwidths = [4.0]\n    kernel scales" in text
    assert "mechanism.noise_multiplier = 1.0\n" in text
    assert "    number, above 0; no default\n" in text
    assert main(["recipes", "show", "mnist-to-usps", "--keys", "--json"]) == ExitCode.OK
    keys = {one["path"]: one for one in json.loads(capsys.readouterr().out)}
    assert keys["training.steps"]["value"] == 800
    assert {"type", "range", "default", "sentence"} <= keys["training.steps"].keys()


@pytest.mark.parametrize("argv", [["recipes", "embedding-digits"], ["recipes", "--json"]])
def test_recipes_are_printed_without_naming_the_command(
    capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    assert main(argv) == ExitCode.OK
    short = capsys.readouterr().out
    assert main([argv[0], "show" if argv[1][0] != "-" else "list", *argv[1:]]) == ExitCode.OK
    assert capsys.readouterr().out == short


def test_several_values_after_one_option() -> None:
    typed = ["evaluate", "s.npz", "--test", "t.npz", "--compare", "a", "b", "--seed", "-1"]
    params = understood(typed, "analyst").params
    assert [str(one) for one in params["compare"]] == ["a", "b"]
    assert params["seed"] == -1
    plan = ["plan", *TRAIN[1:], "--recipe", "x"]
    assert understood([*plan, "--plot"], "analyst").params["plot"] == "-"
    assert understood([*plan, "--plot", "--force"], "analyst").params["plot"] == "-"
    assert understood([*plan, "--plot", "p.png"], "analyst").params["plot"] == "p.png"
    assert understood([*plan, "--plot=p.png"], "analyst").params["plot"] == "p.png"


def test_an_option_without_its_argument_names_the_command_s_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["train", "--out"]) == ExitCode.USAGE
    assert "read 'analyst train --help'" in capsys.readouterr().err
