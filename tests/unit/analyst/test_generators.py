from __future__ import annotations

import pytest
import torch

from analyst.generators import (
    DcganConfig,
    ImageShape,
    MlpConfig,
    balanced_labels,
    build_generator,
    generate,
    num_parameters,
)
from analyst.generators.generator import draw_latents, initialise

MNIST = ImageShape(channels=1, height=28, width=28, num_classes=10)
TINY = ImageShape(channels=1, height=8, width=8, num_classes=10)
CONFIGS: list[DcganConfig | MlpConfig] = [
    DcganConfig(kind="dcgan", width=4),
    MlpConfig(kind="mlp", width=8),
]


def test_dcgan_has_the_published_size() -> None:
    model = build_generator(DcganConfig(kind="dcgan"), MNIST, torch.Generator())
    assert num_parameters(model) == 957_969


@pytest.mark.parametrize(("channels", "height", "width"), [(1, 28, 28), (3, 32, 32), (1, 8, 12)])
@pytest.mark.parametrize("config", CONFIGS)
def test_images_have_the_shape_and_range(
    config: DcganConfig | MlpConfig, channels: int, height: int, width: int
) -> None:
    shape = ImageShape(channels=channels, height=height, width=width, num_classes=3)
    model = build_generator(config, shape, torch.Generator())
    images, labels = generate(model, 7, torch.Generator())
    assert images.shape == (7, channels, height, width)
    assert images.abs().max() <= 1
    assert sorted(labels.bincount(minlength=3).tolist()) == [2, 2, 3]


def test_dcgan_refuses_sides_that_are_not_multiples_of_four() -> None:
    shape = ImageShape(channels=1, height=30, width=28, num_classes=10)
    with pytest.raises(ValueError, match="multiples of 4"):
        build_generator(CONFIGS[0], shape, torch.Generator())


@pytest.mark.parametrize("config", CONFIGS)
def test_weights_come_from_the_given_randomness_alone(config: DcganConfig | MlpConfig) -> None:
    before = torch.get_rng_state()
    one, two, other = (
        build_generator(config, TINY, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(torch.get_rng_state(), before)
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(one.embedding.weight, other.embedding.weight)


@pytest.mark.parametrize("config", CONFIGS)
def test_batch_dependence_is_as_declared(config: DcganConfig | MlpConfig) -> None:
    model = build_generator(config, TINY, torch.Generator())
    latents = draw_latents("normal", 6, model.latent_dim, torch.Generator())
    labels = torch.arange(6)
    alone = model(latents[:3], labels[:3])
    together = model(latents, labels)[:3]
    assert torch.allclose(alone, together, atol=1e-6) is not model.batch_dependent
    assert torch.equal(model.eval()(latents, labels), model.train()(latents, labels))


def test_initial_weights_have_torchs_default_spread() -> None:
    layer = torch.nn.Linear(100, 400)
    initialise(layer, torch.Generator().manual_seed(0))
    assert layer.weight.abs().max() <= 0.1
    assert abs(layer.weight.std().item() - 0.1 / 3**0.5) < 1e-3


def test_a_layer_without_a_rule_is_refused() -> None:
    with pytest.raises(TypeError, match="PReLU"):
        initialise(torch.nn.PReLU(), torch.Generator())


@pytest.mark.parametrize("count", [1, 10, 25])
def test_labels_are_balanced(count: int) -> None:
    counts = balanced_labels(count, 10, torch.Generator()).bincount(minlength=10)
    assert counts.sum() == count
    assert counts.max() - counts.min() <= 1
