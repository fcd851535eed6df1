"""`dataset check` and `dataset add` on the terminal: what is printed where, and the exit code."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from curator.administration.open_ledger import open_ledger_reader
from curator.cli import ExitCode, main
from curator.config import load_config
from curator.folder import CuratorFolder, initialise
from curator.sources.preflight import PRIVATE
from tests.fakes.awkward import encoded, grey, rgb

ADD = shlex.split(
    "--epsilon 10 --delta 1e-5 --adjacency add-or-remove-one-record --classes cat,dog "
    "--image-shape 1x8x8 --nominal-size 4 --max-size 9 --sampling-rate 1/2 --capacity 9"
)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number, name in enumerate(("cat/a.png", "dog/b.png")):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(grey(number)))
    return tmp_path / "photos"


@pytest.fixture
def folder(tmp_path: Path) -> CuratorFolder:
    return initialise(tmp_path / "curator")


def test_check_reports_and_says_that_it_is_private(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dataset", "check", str(photos), "--image-shape", "1x8x8"]) == ExitCode.OK
    out, err = capsys.readouterr()
    assert "2 images can be taken" in out
    assert "classes in order, with their images: cat 1, dog 1" in out
    assert out.splitlines()[-1] == PRIVATE
    for option in ("--nominal-size", "--max-size", "--sampling-rate", "--capacity"):
        assert option not in out
    assert err == ""


def test_check_fails_if_add_would(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (photos / "dog" / "c.png").write_bytes(encoded(rgb()))
    check = ["dataset", "check", str(photos), "--image-shape", "1x8x8"]
    assert main(check) == ExitCode.FAILED
    out, err = capsys.readouterr()
    assert "  dog/c.png: rgb, declared is grey: add --convert grey" in out
    assert err == "curator: 1 refused; nothing is taken until each is corrected or allowed\n"
    assert main([*check, "--convert", "grey", "--quiet"]) == ExitCode.OK
    assert capsys.readouterr() == ("", "")


def test_check_names_the_shape_and_the_options_that_take_what_is_refused(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dataset", "check", str(photos)]) == ExitCode.OK
    assert "all have one shape: --image-shape 1x8x8" in capsys.readouterr().out
    (photos / "dog" / "c.png").write_bytes(encoded(rgb()))
    (photos / "dog" / "d.png").write_bytes(encoded(grey().resize((9, 5))))
    (photos / "dog" / "e.png").write_bytes(encoded(rgb().resize((9, 5))))
    (photos / "dog" / "f.png").write_bytes(b"")
    check = ["dataset", "check", str(photos), "--image-shape", "1x8x8"]
    assert main(check) == ExitCode.FAILED
    out = capsys.readouterr().out
    assert main(["dataset", "check", str(photos)]) == ExitCode.FAILED
    several = capsys.readouterr().out
    assert "they have several shapes, and 'dataset add' takes one: add --image" in several
    assert "with --resize fit or crop and --convert grey or rgb" in several
    assert "with --convert grey --resize fit 3 of the 4 refused would be taken" in out
    assert "one shape" not in out
    (photos / "dog" / "f.png").unlink()
    assert main([*check, "--convert", "grey", "--resize", "fit"]) == ExitCode.OK
    assert "refused" not in capsys.readouterr().out


def test_check_names_the_shape_of_arrays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "two.npz"
    np.savez(source, images=np.zeros((3, 2, 4, 6), np.uint8), labels=np.arange(3))
    assert main(["dataset", "check", str(source), "--image-shape", "1x4x6"]) == ExitCode.FAILED
    assert "all have one shape: --image-shape 2x4x6" in capsys.readouterr().out


def test_the_shape_is_that_of_what_would_be_stored(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check = ["dataset", "check", str(photos), "--image-shape", "3x4x6", "--convert", "rgb"]
    assert main([*check, "--resize", "crop"]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "sizes, width x height: 8 x 8" in out
    assert "all have one shape once converted: --image-shape 3x4x6" in out
    assert "1x8x8" not in out


def test_channels_come_first_and_the_refusal_says_how(
    tmp_path: Path, folder: CuratorFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "last.npz"
    np.savez(source, images=np.zeros((4, 8, 8, 3), np.uint8), labels=np.array([0, 1, 1, 0]))
    how = "images.transpose(0, 3, 1, 2)"
    assert main(["dataset", "check", str(source)]) == ExitCode.FAILED
    out, error = capsys.readouterr()
    assert how in error
    assert "0 images can be taken" in out
    assert "--image-shape 8x8x3" not in out
    assert main(["dataset", "check", str(source), "--image-shape", "3x8x8"]) == ExitCode.FAILED
    assert how in capsys.readouterr().err
    add = ["dataset", "add", "pets", str(source), "--dir", str(folder.root), *ADD]
    assert main([*add, "--image-shape", "3x8x8"]) == ExitCode.FAILED
    assert how in capsys.readouterr().err
    assert main(["dataset", "check", str(source), "--image-shape", "1x8x8"]) == ExitCode.FAILED
    assert "declare the shape that the images have" in capsys.readouterr().err


def test_a_shape_of_image_files_with_channels_last_is_told_in_its_order(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check = ["dataset", "check", str(photos), "--image-shape"]
    assert main([*check, "32x48x3"]) == ExitCode.FAILED
    assert "channels come first: 3x32x48\n" in capsys.readouterr().err
    assert main([*check, "32x48x4"]) == ExitCode.FAILED
    assert "come first" not in capsys.readouterr().err


def test_colours_are_not_advised_away(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (photos / "dog" / "c.jpg").write_bytes(encoded(rgb().convert("CMYK"), "JPEG"))
    check = ["dataset", "check", str(photos)]
    assert main(check) == ExitCode.FAILED
    assert "with --convert grey 1 of the 1 refused would be taken" in capsys.readouterr().out
    (photos / "dog" / "d.png").write_bytes(encoded(rgb()))
    assert main(check) == ExitCode.FAILED
    assert "with --convert rgb 1 of the 1 refused would be taken" in capsys.readouterr().out
    assert main([*check, "--image-shape", "1x8x8"]) == ExitCode.FAILED
    assert "with --convert grey 2 of the 2 refused would be taken" in capsys.readouterr().out


def test_check_refuses_the_labels_that_add_refuses(
    tmp_path: Path, folder: CuratorFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "badlabels.npz"
    np.savez(source, images=np.zeros((4, 8, 8), np.uint8), labels=np.array([1, 2, 2, 1]))
    words = "labels run from 1 to 2, declared are 2 classes (0 to 1)"
    add = ["dataset", "add", "pets", str(source), "--dir", str(folder.root), *ADD]
    assert main(add) == ExitCode.FAILED
    assert words in capsys.readouterr().err
    check = ["dataset", "check", str(source)]
    assert main([*check, "--classes", "cat,dog"]) == ExitCode.FAILED
    out, error = capsys.readouterr()
    assert error == f"curator: {words}\n"
    assert f"all images: {words}" in out
    assert "0 images can be taken" in out
    assert main(check) == ExitCode.FAILED
    assert "labels run from 1 to 2 and must count from 0" in capsys.readouterr().out
    assert main([*check, "--classes", "none,cat,dog"]) == ExitCode.OK
    assert "4 images can be taken" in capsys.readouterr().out


def test_check_as_json(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (photos / "dog" / "c.png").write_bytes(b"")
    assert main(["dataset", "check", str(photos), "--json"]) == ExitCode.FAILED
    told = json.loads(capsys.readouterr().out)
    assert told["accepted"] is False
    assert told["private"] is True
    assert told["classes"] == {"cat": 1, "dog": 1}
    assert told["refused"][0]["name"] == "dog/c.png"


def test_add_refuses_a_delta_that_gives_an_image_away(
    photos: Path, folder: CuratorFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["dataset", "add", "pets", str(photos), "--dir", str(folder.root), *ADD]
    argv += ["--max-size", "500", "--delta", "0.01", "--capacity", "112"]
    assert main([*argv, "--nominal-size", "100"]) == ExitCode.FAILED
    assert "delta: 0.01 is not below 1 / --nominal-size" in capsys.readouterr().err
    assert main([*argv, "--nominal-size", "99"]) == ExitCode.OK


def test_add_refuses_a_capacity_that_cuts_most_samples(
    photos: Path, folder: CuratorFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["dataset", "add", "pets", str(photos), "--dir", str(folder.root), *ADD]
    argv += ["--nominal-size", "2000", "--max-size", "3000", "--sampling-rate", "50/2000"]
    assert main([*argv, "--capacity", "49"]) == ExitCode.FAILED
    error = capsys.readouterr().err
    assert "capacity: 49 is below the 50 records that --sampling-rate" in error
    assert "q n + 8 sqrt(q n) is 107" in error
    assert main(["dataset", "list", "--dir", str(folder.root), "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize("output", [[], ["--json"], ["--quiet"]])
@pytest.mark.parametrize(("capacity", "warned"), [("50", True), ("106", True), ("107", False)])
def test_add_warns_of_a_capacity_that_cuts_some_samples(
    photos: Path,
    folder: CuratorFolder,
    capsys: pytest.CaptureFixture[str],
    output: list[str],
    capacity: str,
    *,
    warned: bool,
) -> None:
    argv = ["dataset", "add", "pets", str(photos), "--dir", str(folder.root), *ADD, *output]
    argv += ["--nominal-size", "2000", "--max-size", "3000", "--sampling-rate", "50/2000"]
    assert main([*argv, "--capacity", capacity]) == ExitCode.OK
    out, error = capsys.readouterr()
    words = f"curator: warning: capacity {capacity} is below q n + 8 sqrt(q n), which is 107"
    assert error.startswith(words) if warned else error == ""
    assert "warning" not in out


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            ["--adjacency", "add-or-remove-one-group"],
            "data set: the unit is a group: add --max-records-per-group K",
        ),
        (["--max-records-per-group", "2"], "leave --max-records-per-group out"),
        (["--max-size", "0"], "curator: --max-size: must be at least 1"),
        (["--max-size", "3"], "--max-size must not be below --nominal-size"),
        (["--capacity", "70000"], "curator: --capacity: must be at most 65536"),
        (["--sampling-rate", "0"], "--sampling-rate: must be above 0"),
        (["--classes", "cat,"], "classes.1: must not be empty"),
    ],
)
def test_add_says_what_is_allowed(
    photos: Path,
    folder: CuratorFolder,
    capsys: pytest.CaptureFixture[str],
    change: list[str],
    words: str,
) -> None:
    argv = ["dataset", "add", "pets", str(photos), "--dir", str(folder.root), *ADD, *change]
    assert main(argv) == ExitCode.FAILED
    assert words in capsys.readouterr().err


def test_a_name_that_is_taken_is_told_with_what_to_do(
    photos: Path, folder: CuratorFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["dataset", "add", "pets", str(photos), "--dir", str(folder.root), *ADD]
    assert main(argv) == ExitCode.OK
    assert main(argv) == ExitCode.FAILED
    assert "also not once it is erased: choose another name" in capsys.readouterr().err


def test_what_stays_of_erased_images_is_said(
    photos: Path, folder: CuratorFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["pets", "--dir", str(folder.root)]
    assert main(["dataset", "add", "pets", str(photos), *at[1:], *ADD]) == ExitCode.OK
    erase = ["dataset", "erase", *at, "--reason", "over", "--confirm", "pets"]
    assert main(erase) == ExitCode.OK
    assert "keyed hashes of the images stay" in capsys.readouterr().out
    assert (folder.root / "identity" / "image-hashes" / "pets").exists()


def test_add_says_what_a_name_may_be(
    photos: Path, folder: CuratorFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["dataset", "add", "My Pets", str(photos), "--dir", str(folder.root), *ADD]
    assert main(argv) == ExitCode.FAILED
    assert "name: a name has 1 to 64 lower-case letters, digits," in capsys.readouterr().err


RECIPE = """
[mechanism]
kind = "dp-sinkhorn"
sampling_rate = {rate}
capacity = 4
num_samples = 4
num_debias = 1
clip_norm = 0.5
noise_multiplier = 0.5
reg = 0.05
l1_weight = 1.0
label_scale = 15.0
schedule = "published"
"""


RELEASED_ONCE = """
[mechanism]
kind = "mean-embedding"
num_features = 8
bandwidths = [1.0]
feature_seed = 1
noise_multiplier = 0.3
count_scale = 0.5
"""


def test_a_budget_favours_a_recipe_if_the_steward_says_so(
    photos: Path, folder: CuratorFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.format(rate=0.001))
    add = ["dataset", "add", "cats", str(photos), "--dir", str(folder.root), *ADD]
    assert main([*add, "--favour", str(recipe)]) == ExitCode.OK
    (line,) = [one for one in capsys.readouterr().out.splitlines() if one.startswith("the budget")]
    (state,) = open_ledger_reader(folder, load_config(folder.config)).datasets()
    assert state.rule.chosen is not None
    assert line.startswith(f"the budget favours order {state.rule.chosen:g}: ")
    assert line.endswith(" by default")
    assert main(["ledger", "show", "--dir", str(folder.root)]) == ExitCode.OK
    assert f"favours order {state.rule.chosen:g}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is no recipe"),
        (RECIPE.format(rate=1.0), "does not fit this data set"),
        (RELEASED_ONCE, "not one step"),
        (RECIPE.format(rate=0.5).replace("multiplier = 0.5", "multiplier = 0.05"), "not one step"),
        (RECIPE.format(rate=0.001).replace("reg =", "rug ="), "does not fit this data set"),
        (RECIPE.format(rate=0.001).replace("dp-sinkhorn", "magic"), "expected one of"),
    ],
)
def test_a_recipe_that_cannot_be_favoured_adds_nothing(
    *,
    photos: Path,
    folder: CuratorFolder,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    words: str,
) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(text)
    add = ["dataset", "add", "cats", str(photos), "--dir", str(folder.root), *ADD]
    assert main([*add, "--favour", str(recipe)]) == ExitCode.FAILED
    assert words in capsys.readouterr().err
    assert not open_ledger_reader(folder, load_config(folder.config)).datasets()


@pytest.mark.parametrize("output", [[], ["--json"], ["--quiet"]])
def test_add_prints_what_was_asked(
    photos: Path, folder: CuratorFolder, capsys: pytest.CaptureFixture[str], output: list[str]
) -> None:
    add = ["dataset", "add", "cats", str(photos), "--dir", str(folder.root), *ADD, *output]
    assert main(add) == ExitCode.OK
    out, err = capsys.readouterr()
    assert err == ""
    if not output:
        assert "2 images (declared nominal size 4)" in out
        assert "the lines above are private, the declared facts are public" in out
        assert out.count("2 images") == out.count("cat 1, dog 1") == 1  # each count once
        root = folder.root
        next_step = f"next: curator analyst add NAME --dir {root}; curator serve --dir {root}"
        assert out.splitlines()[-1] == next_step
    elif output == ["--json"]:
        told = json.loads(out)
        assert told["public"]["nominal_size"] == 4
        assert told["private"]["images"] == 2
    else:
        assert out == ""
    assert main(add) == ExitCode.FAILED
    assert "'cats' is registered already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--image-shape 8x8", "--image-shape must be CHANNELSxHEIGHTxWIDTH"),
        ("--image-shape 1x0x8", "--image-shape must be CHANNELSxHEIGHTxWIDTH"),
        ("--image-shape 3x8x8 --convert grey", "--convert grey gives 1 channels"),
        ("--resize fit", "--resize fit needs --image-shape"),
        ("--labels gone.csv", "gone.csv: there is no such file"),
        ("--groups-key who", "from --labels FILE"),
    ],
)
def test_mistakes_are_told_without_a_traceback(
    photos: Path, capsys: pytest.CaptureFixture[str], options: str, words: str
) -> None:
    assert main(["dataset", "check", str(photos), *options.split()]) == ExitCode.FAILED
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_told_in_one_line(
    photos: Path,
    folder: CuratorFolder,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
) -> None:
    def kill(*_: Any) -> None:
        os.kill(os.getpid(), number)

    monkeypatch.setattr("curator.sources.survey.Survey.add_converted", kill)
    before = signal.getsignal(signal.SIGTERM)
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background
    with pytest.raises(SystemExit) as caught:
        main(["dataset", "add", "cats", str(photos), "--dir", str(folder.root), *ADD])
    assert caught.value.code == 130
    assert "nothing is left of it" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) == before
    signal.signal(signal.SIGINT, interrupt)
    assert [path.name for path in (folder.root / "datasets").iterdir()] == [".adding.lock"]


@pytest.mark.parametrize(
    ("options", "shown"), [([], True), (["--quiet"], False), (["--json"], True)]
)
def test_progress_is_for_people(
    photos: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    shown: bool,
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert main(["dataset", "check", str(photos), *options]) == ExitCode.OK
    out, err = capsys.readouterr()
    assert ("2 of 2 files read (100%)" in err) is shown
    assert "files read" not in out
