from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from analyst.evaluation.networks import PATIENCE, Dropout, Network, NetworkClassifier, build_network
from analyst.generators.generator import num_parameters

IMAGES = np.random.default_rng(0).integers(0, 256, (60, 1, 6, 6), dtype=np.uint8)
LABELS = np.arange(60) % 3


def test_the_mlp_is_784_100_10() -> None:
    model = build_network("mlp", (1, 28, 28), 10, torch.Generator())
    assert num_parameters(model) == 784 * 100 + 100 + 100 * 10 + 10


def test_the_cnn_has_32_and_64_channels_and_dropout_between() -> None:
    model = build_network("cnn", (1, 28, 28), 10, torch.Generator())
    kinds = [type(layer).__name__ for layer in model]
    block = ["Conv2d", "MaxPool2d", "ReLU", "Dropout"]
    assert kinds == [*block, *block, "Flatten", "Linear"]
    convolutions = (9 * 32 + 32) + (9 * 32 * 64 + 64)
    assert num_parameters(model) == convolutions + 64 * 7 * 7 * 10 + 10


@pytest.mark.parametrize(("channels", "height", "width"), [(3, 32, 32), (1, 5, 9), (4, 1, 2)])
@pytest.mark.parametrize("network", ["mlp", "cnn"])
def test_any_image_size(network: Network, channels: int, height: int, width: int) -> None:
    model = build_network(network, (channels, height, width), 7, torch.Generator())
    assert model(torch.zeros(2, channels, height, width)).shape == (2, 7)


@pytest.mark.parametrize("network", ["mlp", "cnn"])
def test_the_seed_alone_decides(network: Network) -> None:
    before = torch.get_rng_state()
    found = []
    for seed in (1, 1, 2):
        classifier = NetworkClassifier(network, seed=seed)
        classifier.fit(IMAGES, LABELS)
        found.append((classifier.num_epochs, classifier.predict(IMAGES).tolist()))
    assert torch.equal(torch.get_rng_state(), before)
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_training_stops_ten_epochs_after_the_last_gain_and_keeps_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    classifier = NetworkClassifier("mlp", seed=0)
    seen: list[float] = []
    train = classifier._train_epoch

    def watch(*arguments: Any) -> None:
        seen.append(classifier.held_out_accuracy)
        train(*arguments)

    monkeypatch.setattr(classifier, "_train_epoch", watch)
    classifier.fit(IMAGES, LABELS)
    best_epoch = seen.index(classifier.held_out_accuracy)  # the first epoch that starts with it
    assert classifier.num_epochs == best_epoch + PATIENCE
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))[:6]
    again = classifier.predict(IMAGES[order.numpy()]) == LABELS[order.numpy()]
    assert again.mean() == pytest.approx(classifier.held_out_accuracy)


def test_dropout_keeps_the_mean_and_rests_outside_training() -> None:
    layer = Dropout(torch.Generator().manual_seed(0))
    ones = torch.ones(100, 100)
    thinned = layer(ones)
    assert set(thinned.unique().tolist()) == {0.0, 2.0}
    assert abs(thinned.mean().item() - 1) < 0.06  # six standard deviations of 10,000 coins
    assert torch.equal(layer.eval()(ones), ones)
