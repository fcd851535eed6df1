"""Hashes know an image by its levels alone, need the key, and count what sets share."""

from __future__ import annotations

import numpy as np
import pytest

from curator.data import overlap as module
from curator.data.errors import SourceError
from curator.data.overlap import (
    Hashes,
    Overlap,
    SameImages,
    check_overlap,
    image_hashes,
    open_hashes,
    seal_hashes,
)

KEY, OTHER = b"k" * 32, b"l" * 32


def levels(*values: int) -> np.ndarray:
    """Return one image of 2 x 3 for each value."""
    return np.repeat(np.array(values, dtype=np.uint8), 6).reshape(-1, 1, 2, 3)


def hashes(*values: int) -> Hashes:
    return image_hashes(levels(*values), KEY)


def test_order_and_duplicates_do_not_count_and_the_key_does() -> None:
    assert np.array_equal(hashes(3, 1, 2), hashes(2, 2, 3, 1))
    assert len(hashes(3, 1, 3)) == 2
    assert not np.isin(hashes(1, 2, 3), image_hashes(levels(1, 2, 3), OTHER)).any()


def test_one_level_makes_another_image() -> None:
    one = levels(1, 2)
    one[0, 0, 0, 0] += 1
    assert np.isin(image_hashes(one, KEY), hashes(1, 2)).sum() == 1


def test_any_number_of_blocks_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = hashes(*range(100))
    monkeypatch.setattr(module, "_BLOCK_BYTES", 42)
    assert np.array_equal(whole, hashes(*range(100)))


def test_what_is_kept_is_whole_and_of_this_key_or_nothing() -> None:
    kept = seal_hashes(hashes(1, 2, 3), KEY)
    found = open_hashes(kept, KEY)
    assert found is not None
    assert np.array_equal(found, hashes(1, 2, 3))
    changed = bytes([*kept[:-1], kept[-1] ^ 1])
    for damaged in (b"", kept[:20], kept[:-8], kept[:-3], changed):
        assert open_hashes(damaged, KEY) is None
    assert open_hashes(kept, OTHER) is None


@pytest.mark.parametrize("most", [0.0, 0.5, 1.0])
def test_the_very_same_images_are_refused_whatever_may_be_shared(most: float) -> None:
    with pytest.raises(SameImages, match="the same images are registered as 'old'"):
        check_overlap(hashes(1, 2, 3), [("other", hashes(9)), ("old", hashes(3, 2, 1))], most)


@pytest.mark.parametrize(
    ("new", "old", "shared", "smaller"),
    [
        (range(10), range(11), 10, 10),  # one image less
        (range(11), range(10), 10, 10),  # one more
        (range(10), range(5, 15), 5, 10),
        (range(100), range(5), 5, 5),  # an old one inside a large new one
    ],
)
def test_shares_are_of_the_smaller_set(new: range, old: range, shared: int, smaller: int) -> None:
    known = [("old", hashes(*old))]
    assert check_overlap(hashes(*new), known, 1.0) == (
        Overlap(name="old", shared=shared, smaller=smaller),
    )
    part = shared / smaller
    check_overlap(hashes(*new), known, part)  # as many as allowed
    with pytest.raises(SourceError, match=rf"{shared} of {smaller} images.*--max-shared"):
        check_overlap(hashes(*new), known, part - 1e-9)


def test_many_small_overlaps_add_up() -> None:
    known = [(f"old{k}", hashes(*range(10 * k, 10 * k + 30))) for k in (0, 3, 6)]
    new = hashes(*range(5), *range(40, 45), *range(70, 75), *range(200, 205))
    with pytest.raises(SourceError, match="15 of 20 images are also in registered data sets"):
        check_overlap(new, known, 0.5)
    assert len(check_overlap(new, known, 0.75)) == 3


def test_nothing_shared_is_nothing_said() -> None:
    assert check_overlap(hashes(1, 2), [("old", hashes(3)), ("none", hashes())], 0.0) == ()
