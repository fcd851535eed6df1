from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from analyst.errors import EvaluationError
from analyst.evaluation.assess import assess
from analyst.evaluation.image_file import LabelledImages
from analyst.evaluation.inception import Inception, weights_file
from analyst.evaluation.lenet import (
    NUM_FEATURES,
    is_small_and_grey,
    lenet_features,
    train_lenet,
)
from tests.fakes.inception import Pretender, saved


def _bars(num: int, seed: int, *, channels: int = 1, noise: int = 60) -> LabelledImages:
    """Class c is bright in column 2 c."""
    randomness = np.random.default_rng(seed)
    images = randomness.integers(0, noise, (num, channels, 8, 8), dtype=np.uint8)
    labels = np.arange(num) % 3
    for image, label in zip(images, labels, strict=True):
        image[:, :, 2 * label] = 250
    return LabelledImages(images, labels.astype(np.int64))


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analyst.evaluation.lenet._LEAST_STEPS", 30)


def test_lenet_learns_the_public_classes_and_repeats_itself() -> None:
    public = _bars(90, 0)
    before = torch.get_rng_state()
    model = train_lenet(public)
    assert torch.equal(torch.get_rng_state(), before)
    scores = model(torch.from_numpy(_bars(30, 1).images).float() / 127.5 - 1)
    assert (scores.argmax(1).numpy() == np.arange(30) % 3).mean() > 0.9
    features = lenet_features(model, public)
    assert features.shape == (90, NUM_FEATURES)
    assert np.array_equal(lenet_features(train_lenet(public), public), features)


def test_only_small_grey_images_are_meant() -> None:
    assert is_small_and_grey(_bars(1, 0))
    assert not is_small_and_grey(_bars(1, 0, channels=3))
    large = LabelledImages(np.zeros((1, 1, 65, 8), np.uint8), np.zeros(1, np.int64))
    assert not is_small_and_grey(large)


def test_worse_images_are_farther_away() -> None:
    test, public = _bars(90, 1), _bars(90, 2)
    good = assess(_bars(90, 0), test, public)
    bad = assess(_bars(90, 0, noise=250), test, public)
    assert good.lenet is not None
    assert bad.lenet is not None
    assert good.lenet.distance < bad.lenet.distance
    assert good.lenet.learned_on == "the public set"
    assert good.neighbours is not None
    assert good.covered_in == "LeNet features"
    assert any("comparable within this report only" in line for line in good.lines())


def test_without_a_public_set_the_test_set_is_halved() -> None:
    found = assess(_bars(60, 0), _bars(60, 1), None)
    assert found.lenet is not None
    assert found.lenet.learned_on == "every other test image"
    assert found.coverage.num_real == 30
    assert found.neighbours is None
    assert found.inception is None


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ((1, 30, 30), "1 synthetic images are too few"),
        ((30, 11, 30), "11 test images are too few"),
        ((30, 30, 1), "the public images are"),
    ],
)
def test_too_few_images_are_named(sizes: tuple[int, int, int], text: str) -> None:
    with pytest.raises(EvaluationError, match=text):
        assess(*(_bars(num, seed) for seed, num in enumerate(sizes)))


def test_a_public_set_of_another_size_is_refused() -> None:
    other = LabelledImages(np.zeros((9, 1, 9, 9), np.uint8), np.arange(9))
    with pytest.raises(EvaluationError, match="the public images are"):
        assess(_bars(30, 0), _bars(30, 1), other)


def test_the_least_that_is_accepted() -> None:
    found = assess(_bars(2, 0), _bars(12, 1), _bars(2, 2))
    assert found.coverage.num_real == 12
    assert assess(_bars(2, 0), _bars(12, 1), None).coverage.num_real == 6


def test_colours_are_covered_in_pixels() -> None:
    found = assess(_bars(30, 0, channels=3), _bars(30, 1, channels=3), None)
    assert found.lenet is None
    assert found.covered_in == "pixels"


class Flat(nn.Module):
    def forward(
        self, images: Tensor, return_features: bool = False, no_output_bias: bool = False
    ) -> Tensor:
        return images.float().mean()


def _trusted(path: Path) -> Inception:
    return Inception(path, sha256=hashlib.sha256(path.read_bytes()).hexdigest().upper())


def test_a_file_that_nobody_vouches_for_is_not_run(tmp_path: Path) -> None:
    path = saved(Pretender(), tmp_path / "pretender.pt")
    with pytest.raises(EvaluationError, match="has the SHA-256"):
        Inception(path)
    with pytest.raises(EvaluationError, match="cannot read the Inception weights") as error:
        Inception(tmp_path / "missing.pt")
    assert "inception-2015-12-05.pt" in error.value.remedy


def test_the_weights_lie_in_the_cache_unless_another_place_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert weights_file(None) == tmp_path / ".cache" / "weir" / "inception-2015-12-05.pt"
    assert weights_file(tmp_path / "x.pt") == tmp_path / "x.pt"


def test_one_class_teaches_no_features(tmp_path: Path) -> None:
    one = LabelledImages(_bars(30, 1).images, np.zeros(30, np.int64))
    found = assess(_bars(30, 0), one, None)
    assert (found.lenet, found.covered_in) == (None, "pixels")
    assert assess(one, _bars(30, 0), None).lenet is not None  # of one class, against several


def test_a_torchscript_file_gives_fid_and_inception_score(tmp_path: Path) -> None:
    inception = _trusted(saved(Pretender(), tmp_path / "pretender.pt"))
    found = assess(_bars(30, 0), _bars(30, 1), None, inception=inception)
    assert found.inception is not None
    assert found.inception.fid < 5
    assert found.inception.score == pytest.approx(3, rel=1e-3)
    assert any(line.startswith("FID: ") for line in found.lines())
    assert any(line.startswith("inception score: 3.0") for line in found.lines())


def test_other_inception_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "no.pt").write_bytes(b"nothing")
    with pytest.raises(EvaluationError, match=r"cannot load .*no\.pt"):
        _trusted(tmp_path / "no.pt")
    flat = _trusted(saved(Flat(), tmp_path / "flat.pt"))
    with pytest.raises(EvaluationError, match=r"returned \(\) for 3 images"):
        flat.features(_bars(3, 0))
    plain = _trusted(saved(nn.Identity(), tmp_path / "plain.pt"))
    with pytest.raises(EvaluationError, match="failed"):
        plain.features(_bars(3, 0))
    with pytest.raises(EvaluationError, match="1 or 3 channels"):
        flat.features(_bars(3, 0, channels=4))
