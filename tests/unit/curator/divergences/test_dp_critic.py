"""One critic: slopes of each example alone, against torch.func and against opacus."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap
from torch.nn.functional import one_hot, softplus

from curator.divergences.critics import CriticShape, Parameters, initial_critics, scores
from curator.divergences.dp_critic import (
    CriticVector,
    Examples,
    adam_step,
    example_slopes,
    image_slopes,
    in_chunks,
    initial_vector,
    parameters_of,
)

N, L = 6, 3


def shape(kind: str) -> CriticShape:
    return CriticShape(
        kind=kind,  # type: ignore[arg-type]
        width=4,
        channels=2,
        height=7,
        pixels_per_row=5,
        num_classes=L,
    )


def examples(kind: str, *, are_records: bool = True, seed: int = 0) -> Examples:
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(N, shape(kind).dimension, generator=generator) * 2 - 1
    onehot = one_hot(torch.arange(N) % L, L).float()
    return Examples(images_ND=images, onehot_NL=onehot, are_records=are_records)


def vector(kind: str) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    start = initial_vector(shape(kind), 3)
    return start + 0.05 * torch.randn(start.shape, generator=generator)


def loss(
    sizes: CriticShape, critic: Parameters, image: Tensor, onehot: Tensor, sign: int
) -> Tensor:
    score = scores(sizes, critic, image.unsqueeze(0), onehot.unsqueeze(0))[0]
    return softplus(-sign * score)


def as_stored(want: Tensor) -> Tensor:
    """Return slopes of parameters in the order of `initial_vector`: entering channels last."""
    return (want.movedim(2, 4) if want.dim() == 5 else want).flatten(1)


@pytest.mark.parametrize("are_records", [True, False])
@pytest.mark.parametrize("kind", ["mlp", "conv"])
def test_slopes_are_those_of_torch_func(kind: str, are_records: bool) -> None:
    sizes, given, sign = (
        shape(kind),
        examples(kind, are_records=are_records),
        1 if are_records else -1,
    )

    def of_one(critic: Parameters, image: Tensor, onehot: Tensor) -> Tensor:
        return loss(sizes, critic, image, onehot, sign)

    found = example_slopes(sizes, vector(kind), given)
    wanted = vmap(grad(of_one), in_dims=(None, 0, 0))(
        parameters_of(sizes, vector(kind)), given.images_ND, given.onehot_NL
    )
    for part, want in zip(found, wanted.values(), strict=True):
        torch.testing.assert_close(part, as_stored(want), rtol=1e-4, atol=1e-6)
    assert sum(part.shape[1] for part in found) == sizes.num_parameters


class Scorer(torch.nn.Module):
    """The same critic as layers that opacus knows; the label as a pattern on the features."""

    def __init__(self, sizes: CriticShape, critic: Parameters) -> None:
        super().__init__()
        self.grid = (-1, sizes.channels, sizes.height, sizes.pixels_per_row)
        channels = [sizes.channels, 4, 8, 16]
        pairs = itertools.pairwise(channels)
        self.layers = torch.nn.ModuleList(
            torch.nn.Conv2d(a, b, 5, stride=2, padding=2) for a, b in pairs
        )
        features = critic["score"].shape[1]
        self.score = torch.nn.Linear(features, 1, bias=False)
        self.classes = torch.nn.Linear(features, L, bias=False)
        with torch.no_grad():
            for number, layer in enumerate(self.layers):
                layer.load_state_dict(
                    {"weight": critic[f"weight{number}"], "bias": critic[f"bias{number}"]}
                )
            self.score.weight.copy_(critic["score"])
            self.classes.weight.copy_(critic["classes"])

    def forward(self, images: Tensor, onehot: Tensor) -> Tensor:
        value = images.reshape(self.grid)
        for layer in self.layers:
            value = torch.nn.functional.leaky_relu(layer(value), 0.2)
        features = value.flatten(1)
        by_class: Tensor = (self.classes(features) * onehot).sum(dim=1)
        plain: Tensor = self.score(features)[:, 0]
        return plain + by_class


@pytest.mark.filterwarnings("ignore")
def test_slopes_are_those_of_opacus() -> None:
    opacus = pytest.importorskip("opacus")
    sizes, given = shape("conv"), examples("conv")
    module = opacus.GradSampleModule(
        Scorer(sizes, parameters_of(sizes, vector("conv"))), loss_reduction="sum"
    )
    torch.autograd.backward([softplus(-module(given.images_ND, given.onehot_NL)).sum()])
    wanted = [as_stored(parameter.grad_sample) for parameter in module.parameters()]
    found = example_slopes(sizes, vector("conv"), given)
    for part, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(part, want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["mlp", "conv"])
def test_a_vector_holds_the_first_parameters(kind: str) -> None:
    sizes = shape(kind)
    held, drawn = parameters_of(sizes, initial_vector(sizes, 3)), initial_critics(sizes, 1, 3)
    assert list(held) == list(drawn)
    for name, value in held.items():
        assert torch.equal(value, drawn[name][0])


@pytest.mark.parametrize("other", [0.0, 1.0, -7.0, 1e20, math.inf, math.nan])
@pytest.mark.parametrize("kind", ["mlp", "conv"])
def test_a_row_does_not_know_its_companions(kind: str, other: float) -> None:
    given = examples(kind)
    changed = given.images_ND.clone()
    changed[2] = other
    rest = torch.arange(N) != 2
    moved = Examples(images_ND=changed, onehot_NL=given.onehot_NL, are_records=True)
    pairs = zip(
        example_slopes(shape(kind), vector(kind), given),
        example_slopes(shape(kind), vector(kind), moved),
        strict=True,
    )
    for one, two in pairs:
        assert torch.equal(one[rest], two[rest])


@pytest.mark.parametrize("kind", ["mlp", "conv"])
def test_image_slopes_are_those_of_the_generators_loss(kind: str) -> None:
    sizes, given = shape(kind), examples(kind, are_records=False)
    found = image_slopes(sizes, vector(kind), given.images_ND, given.onehot_NL)

    def mean(images: Tensor) -> Tensor:
        critic = parameters_of(sizes, vector(kind))
        return softplus(-scores(sizes, critic, images, given.onehot_NL)).mean()

    torch.testing.assert_close(found, grad(mean)(given.images_ND), rtol=1e-4, atol=1e-7)
    assert found.shape == given.images_ND.shape


def test_chunks_cover_every_row_once() -> None:
    rows = [list(range(10))[some] for some in in_chunks(10, 4)]
    assert rows == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_steps_are_those_of_adam() -> None:
    start = torch.linspace(-1, 1, 7)
    critic = CriticVector.start(start.clone())
    reference = start.clone().requires_grad_()
    adam = torch.optim.Adam([reference], lr=0.01, betas=(0.5, 0.999))
    for turn in range(4):
        slope = torch.sin(torch.arange(7.0) + turn)
        reference.grad = slope.clone()
        adam.step()
        critic = adam_step(critic, slope, 0.01)
    torch.testing.assert_close(critic.values, reference.detach(), rtol=1e-5, atol=1e-7)
    again = CriticVector.unpack(critic.pack(), torch.device("cpu"))
    assert again.num_updates == 4
    for name in ("values", "means", "squares"):
        assert torch.equal(getattr(again, name), getattr(critic, name))
