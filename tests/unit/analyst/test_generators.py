from __future__ import annotations

import pytest
import torch

from analyst.generators.configs import (
    GENERATOR_CONFIGS,
    AnyGeneratorConfig,
    ConvEmbeddingConfig,
    DcganConfig,
    DecodedConfig,
    DpMerfConfig,
    DpSwdConfig,
    MlpConfig,
    ResidualConfig,
)
from analyst.generators.conv_embedding import ConvEmbeddingGenerator
from analyst.generators.dp_swd import DpSwdGenerator
from analyst.generators.generator import (
    ImageShape,
    build_generator,
    draw_latents,
    initialise,
    num_parameters,
)
from analyst.generators.residual import ResidualGenerator
from analyst.generators.sampling import balanced_labels, generate

MNIST = ImageShape(channels=1, height=28, width=28, num_classes=10)
TINY = ImageShape(channels=1, height=8, width=8, num_classes=10)
CONFIGS: list[AnyGeneratorConfig] = [
    DcganConfig(kind="dcgan", width=4),
    MlpConfig(kind="mlp", width=8),
    ConvEmbeddingConfig(kind="conv-embedding", width=4),
    DpMerfConfig(kind="dp-merf", width=4),
    DpSwdConfig(kind="dp-swd", width=4),
    ResidualConfig(kind="residual", width=8),
    DecodedConfig(kind="decoded", width=8, hidden_width=6, code_width=4),
]


def test_every_generator_of_the_catalogue_is_tested() -> None:
    assert {type(config) for config in CONFIGS} == set(GENERATOR_CONFIGS)


def test_dcgan_has_the_published_size() -> None:
    model = build_generator(DcganConfig(kind="dcgan"), MNIST, torch.Generator())
    assert num_parameters(model) == 957_969


def test_dp_merf_has_the_size_of_the_layers_that_the_paper_lists() -> None:
    model = build_generator(DpMerfConfig(kind="dp-merf"), MNIST, torch.Generator())
    dense = (20 * 200 + 200) + 2 * 200 + (200 * 784 + 784) + 2 * 784
    convolutions = (16 * 8 * 25 + 8) + (8 * 25 + 1)
    assert num_parameters(model) == dense + convolutions


def test_the_residual_generator_has_the_layers_of_the_released_code() -> None:
    faces = ImageShape(channels=3, height=32, width=32, num_classes=2)
    model = build_generator(ResidualConfig(kind="residual"), faces, torch.Generator())
    convolutions = 2 * (256 * 256 * 9 + 256) + (256 * 256 + 256)
    block = 2 * (2 * 2 * 256) + convolutions
    ends = (32 * 4096 + 4096) + 2 * 256 + (256 * 3 * 9 + 3)
    assert num_parameters(model) == 3 * block + ends


@pytest.mark.parametrize("side", [64, 128, 256])
def test_the_residual_generator_narrows_beyond_its_wide_side(side: int) -> None:
    """Each longer map has half the channels, so that none takes longer than the last wide one."""
    pictures = ImageShape(channels=3, height=side, width=side, num_classes=2)
    config = ResidualConfig(kind="residual", width=32, wide_side=32)
    model = build_generator(config, pictures, torch.Generator().manual_seed(1))
    assert isinstance(model, ResidualGenerator)
    widths = [block.first.out_channels for block in model.blocks]  # type: ignore[union-attr]
    assert widths == [32, 32, 32, 16, 8, 4][: len(widths)]
    maps = [(4 << done) ** 2 * width for done, width in enumerate([32, *widths])]
    assert maps[-1] == side * side * widths[-1]
    images = model(torch.zeros(4, 32).normal_(), torch.arange(4) % 2)
    assert images.shape == (4, 3, side, side)
    assert float(images.detach().abs().max()) <= 1


@pytest.mark.parametrize(("side", "enlarged"), [(128, 4), (128, 8), (50, 4), (28, 64)])
def test_dp_swd_makes_a_smaller_picture_and_enlarges_it_smoothly(side: int, enlarged: int) -> None:
    pictures = ImageShape(channels=3, height=side, width=side, num_classes=2)
    config = DpSwdConfig(kind="dp-swd", width=4, enlarged=enlarged)
    model = build_generator(config, pictures, torch.Generator().manual_seed(1))
    images = model(torch.zeros(4, 32).normal_(), torch.arange(4) % 2).detach()
    assert images.shape == (4, 3, side, side)
    bends = (images.diff(dim=3, n=2).abs() > 1e-4).double().mean()
    assert bends <= 2 / enlarged + 0.1  # straight between the pixels that were made
    plain = build_generator(DpSwdConfig(kind="dp-swd", width=4), pictures, torch.Generator())
    noisy = plain(torch.zeros(4, 32).normal_(), torch.arange(4) % 2).detach()
    assert images.diff(dim=3).abs().mean() < 0.5 * noisy.diff(dim=3).abs().mean()


def test_dp_swd_starts_from_the_features_that_the_paper_compares() -> None:
    faces = ImageShape(channels=3, height=64, width=64, num_classes=2)
    model = build_generator(DpSwdConfig(kind="dp-swd"), faces, torch.Generator())
    assert isinstance(model, DpSwdGenerator)
    first = model.layers[0](torch.zeros(1, 34, 1, 1))
    assert first.numel() == 8192


def test_conv_embedding_has_the_channels_of_the_trial() -> None:
    model = build_generator(ConvEmbeddingConfig(kind="conv-embedding"), MNIST, torch.Generator())
    assert isinstance(model, ConvEmbeddingGenerator)
    transposed = [one for one in model.layers if isinstance(one, torch.nn.ConvTranspose2d)]
    assert [one.out_channels for one in transposed] == [256, 128, 64]


@pytest.mark.parametrize(("channels", "height", "width"), [(1, 28, 28), (3, 32, 32), (1, 8, 12)])
@pytest.mark.parametrize("config", CONFIGS)
def test_images_have_the_shape_and_range(
    config: AnyGeneratorConfig, channels: int, height: int, width: int
) -> None:
    shape = ImageShape(channels=channels, height=height, width=width, num_classes=3)
    model = build_generator(config, shape, torch.Generator())
    images, labels = generate(model, 7, torch.Generator())
    assert images.shape == (7, channels, height, width)
    assert images.abs().max() <= 1
    assert sorted(labels.bincount(minlength=3).tolist()) == [2, 2, 3]


@pytest.mark.parametrize("config", [CONFIGS[0], CONFIGS[3]])
def test_sides_that_are_not_multiples_of_four_are_refused(config: AnyGeneratorConfig) -> None:
    shape = ImageShape(channels=1, height=30, width=28, num_classes=10)
    with pytest.raises(ValueError, match=f"{config.kind} needs sides .* multiples of 4"):
        build_generator(config, shape, torch.Generator())


@pytest.mark.parametrize("config", [CONFIGS[1], CONFIGS[2], *CONFIGS[4:]])
@pytest.mark.parametrize(("height", "width"), [(5, 9), (30, 28), (17, 2)])
def test_the_others_make_any_size(config: AnyGeneratorConfig, height: int, width: int) -> None:
    shape = ImageShape(channels=1, height=height, width=width, num_classes=2)
    model = build_generator(config, shape, torch.Generator())
    assert generate(model, 2, torch.Generator())[0].shape == (2, 1, height, width)


@pytest.mark.parametrize("config", CONFIGS)
def test_weights_come_from_the_given_randomness_alone(config: AnyGeneratorConfig) -> None:
    before = torch.get_rng_state()
    one, two, other = (
        build_generator(config, TINY, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(torch.get_rng_state(), before)
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not all(map(torch.equal, one.parameters(), other.parameters()))


@pytest.mark.parametrize("config", CONFIGS)
def test_batch_dependence_is_as_declared(config: AnyGeneratorConfig) -> None:
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
