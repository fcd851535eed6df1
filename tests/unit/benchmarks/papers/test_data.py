"""Stand-ins: the same images everywhere, and nothing of the training part in the test part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analyst.evaluation.image_file import LabelledImages
from benchmarks.papers.codes import CodeSize, decoded, encoded, learn_public
from benchmarks.papers.data import read_data, scaled, visible
from benchmarks.papers.letters import LETTERS, drawn, font_faces
from benchmarks.papers.pictures import crops


def test_letters_are_drawn_the_same_twice() -> None:
    faces = font_faces()
    images, writers = drawn(faces[:3], 20, seed=3)
    again, _ = drawn(faces[:3], 20, seed=3)
    assert np.array_equal(images.images, again.images)
    assert images.images.shape == (20, 1, 28, 28)
    assert images.labels.tolist() == [*range(10), *range(10)]
    assert set(writers.tolist()) <= {0, 1, 2}
    assert images.images.max(axis=(1, 2, 3)).min() > 128  # every face has every letter
    assert images.classes == tuple(LETTERS)


def test_fonts_that_are_missing_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="give a folder"):
        font_faces(tmp_path)


def test_pictures_are_in_colour_and_of_two_classes() -> None:
    images = crops(32, 6, seed=0)
    assert images.images.shape == (6, 3, 32, 32)
    assert images.labels.tolist() == [0, 1] * 3
    assert not np.array_equal(images.images, crops(32, 6, seed=1).images)


def test_the_digits_public_fifth_is_apart() -> None:
    data = read_data("digits", None)
    assert data.nominal_size == 1437
    private = {one.tobytes() for one in data.private.images}
    assert not private & {one.tobytes() for one in data.test.images}
    assert visible(data, data.test).images.max() == 255
    pixels = scaled(data, data.private)
    assert (float(pixels.min()), float(pixels.max())) == (-1.0, 1.0)
    facts = data.facts(
        "digits", {"sampling_rate": 0.1, "capacity": 200, "epsilon": 1.0, "delta": 1e-5}
    )
    assert (facts.max_level, len(facts.classes), facts.height) == (16, 10, 8)


def test_a_missing_file_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"mnist\.npz"):
        read_data("mnist", tmp_path)
    with pytest.raises(SystemExit, match="known are"):
        read_data("faces", None)


def test_codes_are_bytes_that_the_public_decoder_makes_pictures_of() -> None:
    public = crops(16, 64, seed=2)
    size = CodeSize(channels=8, width=4, num_steps=60)
    model, again = learn_public(public, size), learn_public(public, size)
    codes = encoded(model, public)
    assert codes.images.shape == (64, 8, 1, 1)
    assert codes.images.dtype == np.uint8
    assert np.array_equal(codes.images, encoded(again, public).images)
    made = decoded(model, codes)
    assert made.images.shape == public.images.shape

    def far(images: LabelledImages) -> float:
        return float(np.square(images.images.astype(float) - public.images).mean())

    untrained = learn_public(public, CodeSize(channels=8, width=4, num_steps=0))
    assert far(made) < far(decoded(untrained, encoded(untrained, public)))
    alone = encoded(model, LabelledImages(public.images[:1], public.labels[:1]))
    assert np.abs(alone.images[0].astype(int) - codes.images[0]).max() <= 1  # of one record alone
