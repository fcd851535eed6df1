"""Changes under which an image stays of its class: bounded, seeded, of pictures only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analyst.cli import ExitCode, main
from analyst.errors import ImageFileError
from analyst.evaluation.augment import augmented, stroked, warped
from analyst.evaluation.image_file import LabelledImages, load_images
from analyst.recipes import Recipe
from analyst.training.progress import Progress
from analyst.training.session import SessionOptions, run_session
from tests.fakes.barrier import FakeBarrier

MakeRecipe = Callable[..., Recipe]
MakeStop = Callable[..., Any]


def _squares(count: int, channels: int = 1) -> LabelledImages:
    images = np.zeros((count, channels, 28, 28), np.uint8)
    images[:, :, 10:18, 12:16] = 255
    return LabelledImages(images, np.arange(count) % 10, tuple("0123456789"), "run-0")


def test_nothing_changes_at_degree_zero() -> None:
    data = _squares(3, channels=3)
    np.testing.assert_array_equal(augmented(data, 0.0, seed=1).images, data.images)


def test_each_image_changes_in_its_own_way_by_the_seed_and_keeps_all_else() -> None:
    data = _squares(1200)  # more than are changed at once
    changed = augmented(data, 0.5, seed=1)
    np.testing.assert_array_equal(changed.images, augmented(data, 0.5, seed=1).images)
    assert not np.array_equal(changed.images, augmented(data, 0.5, seed=2).images)
    assert len({image.tobytes() for image in changed.images}) == 1200
    assert (changed.labels is data.labels, changed.run_id) == (True, "run-0")
    assert changed.classes == data.classes


@pytest.mark.parametrize(("degree", "most"), [(0.25, 1.5), (1.0, 5.5)])
def test_what_is_shown_moves_and_grows_within_bounds(degree: float, most: float) -> None:
    images = augmented(_squares(400), degree, seed=3).images[:, 0].astype(np.float64)
    mass = images.sum(axis=(1, 2))
    places = np.arange(28)
    middles = [(images.sum(axis=axis) @ places / mass) for axis in (1, 2)]
    for middle in middles:
        assert np.ptp(middle) > most / 4
        assert np.abs(middle - 13.5).max() < most
    area = mass / (255 * 32)
    assert area.min() < 1 - 0.1 * degree
    assert 1 + 0.1 * degree < area.max() < 1 + 2 * degree


def test_lines_are_at_most_a_pixel_thicker_or_thinner() -> None:
    image = torch.from_numpy(_squares(64).images).float() / 127.5 - 1
    strokes = stroked(image, 1.0, torch.Generator().manual_seed(0))
    assert strokes[:, :, 11:17, 13:15].min() == 1.0
    assert strokes[:, :, :9].max() == -1.0
    assert strokes[:, :, 9].max() > -1.0


def test_a_bend_moves_what_an_affine_warp_keeps_straight() -> None:
    columns = torch.full((1, 1, 28, 28), -1.0)
    columns[:, :, :, 13:15] = 1.0
    bent = warped(columns, 1e-3, torch.Generator().manual_seed(0), most_bend=50.0)
    middles = (
        (bent + 1).squeeze() @ torch.arange(28.0) / (bent + 1).squeeze().sum(dim=1).clamp_min(1)
    )
    assert middles.std() > 0.1
    assert torch.isfinite(bent).all()


def test_codes_are_not_turned() -> None:
    with pytest.raises(ImageFileError, match="32 channels"):
        augmented(_squares(2, channels=32), 0.5, seed=0)


def test_samples_are_changed_on_demand(
    tmp_path: Path,
    small_recipe: MakeRecipe,
    progress: Progress,
    make_stop: MakeStop,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_session(
        FakeBarrier(), small_recipe(), SessionOptions(out=tmp_path / "run"), progress, make_stop()
    )
    sample = ["sample", "--out-of", str(tmp_path / "run"), "--count", "20", "--out"]
    assert main([*sample, str(tmp_path / "plain.npz")]) == ExitCode.OK
    assert main([*sample, str(tmp_path / "changed.npz"), "--augment", "0.5"]) == ExitCode.OK
    plain, changed = (load_images(tmp_path / f"{name}.npz") for name in ("plain", "changed"))
    expected = augmented(plain, 0.5, seed=0)
    np.testing.assert_array_equal(changed.images, expected.images)
    np.testing.assert_array_equal(changed.labels, plain.labels)
    assert main([*sample, str(tmp_path / "no.npz"), "--augment", "1.5"]) == ExitCode.USAGE
    assert "0" in capsys.readouterr().err
