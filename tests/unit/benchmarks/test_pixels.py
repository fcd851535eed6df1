"""Which mechanisms take large images in colour, and what they say of those that are too large."""

from __future__ import annotations

import pytest

from benchmarks.pixels import PARAMETERS, opened
from curator.errors import MalformedRequest
from curator.mechanisms.catalogue import mechanism_names

NETWORKS = dict.fromkeys(("dp-swd-features", "score"), "images are too large for mlp-features")
REFUSED: dict[int, dict[str, str]] = {
    64: {},
    128: NETWORKS,
    256: NETWORKS | {"linear-teacher": "features: too many for images of this size"},
}
"""What a run is refused with, by the side of its images."""

FEW = {"num_features": 4}  # frequencies of the largest images take seconds to draw


OF_THE_STEWARD = {"feature-statistics"}
"""Runs of a network that the steward has added; what they cost is the network's."""


def test_every_mechanism_has_a_run() -> None:
    assert set(PARAMETERS) == set(mechanism_names()) - OF_THE_STEWARD


@pytest.mark.parametrize("side", [64, 128, 256])
@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_large_images_are_taken_or_refused_by_name(
    name: str, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "mean-embedding":
        monkeypatch.setitem(PARAMETERS, name, PARAMETERS[name] | FEW)
    said = REFUSED[side]
    if name not in said:
        assert opened(name, side).space.dimension == 3 * side * side
        return
    with pytest.raises(MalformedRequest, match=said[name]):
        opened(name, side)
