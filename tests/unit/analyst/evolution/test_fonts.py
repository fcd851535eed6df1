"""Characters from fonts: of every class, of the set's shape, told apart, and varied by degrees."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import pytest
import torch
from torch import Tensor

from analyst.errors import RecipeError
from analyst.evolution.fonts import FontProposer, font_faces
from analyst.evolution.proposer import Proposer
from analyst.generators.generator import ImageShape

FOLDER = Path(mpl.get_data_path()) / "fonts" / "ttf"  # every machine has these
DIGITS = tuple("0123456789")


def shape(**changes: int) -> ImageShape:
    sizes = {"channels": 1, "height": 28, "width": 28, "num_classes": 10}
    return ImageShape(**(sizes | changes))


def randomness(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def fonts() -> FontProposer:
    return FontProposer(shape(), DIGITS, FOLDER)


def test_fonts_without_the_characters_are_left_out() -> None:
    names = {path.name for path in font_faces([FOLDER], DIGITS)}
    assert "DejaVuSans.ttf" in names
    assert "cmsy10.ttf" not in names  # signs
    assert len(font_faces([FOLDER], ("A", "-"))) > 10  # a dash is a full block in each


def test_a_machine_without_fonts_is_told_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "broken.ttf").write_bytes(b"no font")
    with pytest.raises(RecipeError, match="no two fonts") as refused:
        FontProposer(shape(), DIGITS, tmp_path)
    assert "apt-get install" in refused.value.remedy
    with pytest.raises(RecipeError, match="'T-shirt' is not one"):
        FontProposer(shape(), ("T-shirt", "Bag"), FOLDER)


@pytest.mark.parametrize(
    "changes", [{}, {"height": 8, "width": 8}, {"channels": 3, "height": 16, "width": 20}]
)
def test_images_are_of_the_set_s_shape(changes: dict[str, int]) -> None:
    of = shape(**changes)
    proposer = FontProposer(of, DIGITS, FOLDER)
    assert isinstance(proposer, Proposer)
    images = proposer.propose(5, 3, randomness())
    assert images.shape == (5, of.channels, of.height, of.width)
    assert bool((images.abs() <= 1).all())
    assert bool((images.amax(dim=(1, 2, 3)) > -0.5).all())  # there is ink in each
    assert torch.equal(images, proposer.propose(5, 3, randomness()))
    assert not torch.equal(images, proposer.propose(5, 3, randomness(1)))


def apart(one: Tensor, other: Tensor) -> float:
    return float((one - other).square().sum(dim=(1, 2, 3)).mean())


def test_an_image_is_most_like_images_of_its_class(fonts: FontProposer) -> None:
    """By the nearest of others, of any class."""

    def drawn(count: int, seed: int) -> Tensor:
        parts = [fonts.propose(count, label, randomness(seed + label)) for label in range(10)]
        return torch.cat(parts).flatten(1)

    far = torch.cdist(drawn(8, 100), drawn(40, 0))
    right = far.argmin(dim=1) // 40 == torch.arange(10).repeat_interleave(8)
    assert int(right.sum()) > 40  # of 80, and 8 by chance


def test_variations_are_as_far_as_their_degree(fonts: FontProposer) -> None:
    images = fonts.propose(40, 4, randomness())
    far = [apart(images, fonts.vary(images, 4, one, randomness(1))) for one in (0.0, 0.1, 0.4, 1.0)]
    assert far[0] < 1e-6
    assert far == sorted(far)
    assert far[1] < apart(images, fonts.propose(40, 4, randomness(2))) / 2
