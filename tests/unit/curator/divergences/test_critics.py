"""Critics: the loss and its slopes against independent arithmetic, all together as one by one."""

from __future__ import annotations

import copy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from curator.divergences import critic_training
from curator.divergences.adam import Ensemble
from curator.divergences.critic_training import (
    CriticOptimizer,
    Minibatch,
    image_gradients,
    update,
)
from curator.divergences.critics import (
    CriticShape,
    Parameters,
    initial_critics,
    public_uniforms,
    scores,
)
from curator.divergences.ensemble import (
    CONVOLUTIONS,
    GroupedConvolution,
    PatchedConvolution,
)
from tests.lone_critics import loss_of, train_alone

K, R, N, L = 6, 5, 4, 3
MLP = CriticShape(kind="mlp", width=7, channels=1, height=5, pixels_per_row=3, num_classes=L)
CONV = CriticShape(kind="conv", width=3, channels=2, height=9, pixels_per_row=6, num_classes=L)
SHAPES = pytest.mark.parametrize("shape", [MLP, CONV], ids=["mlp", "conv"])
OPTIMIZER = CriticOptimizer(learning_rate=0.01, penalty=10.0)


def minibatch(shape: CriticShape, dtype: torch.dtype = torch.float32) -> Minibatch:
    generator = torch.Generator().manual_seed(0)

    def uniform(*size: int) -> Tensor:
        return torch.rand(size, generator=generator, dtype=dtype)

    def labels(*size: int) -> Tensor:
        drawn = torch.randint(0, L, size, generator=generator)
        return nn.functional.one_hot(drawn, L).to(dtype)

    return Minibatch(
        records_KRD=uniform(K, R, shape.dimension) * 2 - 1,
        record_labels_KRL=labels(K, R),
        images_ND=uniform(N, shape.dimension) * 2 - 1,
        image_labels_NL=labels(N),
        mixing_KR=uniform(K, R),
    )


def one(critics: Parameters, k: int) -> Parameters:
    return {name: value[k] for name, value in critics.items()}


def rows(batch: Minibatch, k: int) -> tuple[Tensor, ...]:
    return (
        batch.records_KRD[k],
        batch.record_labels_KRL[k],
        batch.images_ND,
        batch.image_labels_NL,
        batch.mixing_KR[k],
    )


@SHAPES
def test_scores_are_those_of_a_plain_network(shape: CriticShape) -> None:
    critic = one(initial_critics(shape, K, 1), 2)
    batch = minibatch(shape)
    if shape.kind == "mlp":
        hidden = batch.images_ND
        for n in range(2):
            hidden = hidden @ critic[f"weight{n}"].T + critic[f"bias{n}"]
            hidden = torch.where(hidden > 0, hidden, 0.2 * hidden)
    else:
        layers: list[nn.Module] = []
        for n, (a, b) in enumerate([(2, 3), (3, 6), (6, 12)]):
            layer = nn.Conv2d(a, b, 5, stride=2, padding=2)
            layer.weight.data, layer.bias.data = critic[f"weight{n}"], critic[f"bias{n}"]  # type: ignore[union-attr]
            layers += [layer, nn.LeakyReLU(0.2)]
        hidden = nn.Sequential(*layers)(batch.images_ND.reshape(N, 2, 9, 6)).flatten(1)
    labels = batch.image_labels_NL.argmax(dim=1)
    expected = (hidden * (critic["score"] + critic["classes"][labels])).sum(dim=1)
    torch.testing.assert_close(
        scores(shape, critic, batch.images_ND, batch.image_labels_NL), expected
    )


@SHAPES
def test_the_loss_against_its_definition(shape: CriticShape) -> None:
    critic = one(initial_critics(shape, K, 1), 3)
    critic = {name: value.double() for name, value in critic.items()}
    batch = minibatch(shape, torch.float64)
    real, real_labels, fake, fake_labels, mixing = rows(batch, 3)
    total = scores(shape, critic, fake, fake_labels).mean()
    total = total - scores(shape, critic, real, real_labels).mean()
    total = total + 1e-3 * scores(shape, critic, real, real_labels).square().mean()
    for r in range(R):
        mixed = (mixing[r] * real[r] + (1 - mixing[r]) * fake[r % N]).requires_grad_()
        (slope,) = torch.autograd.grad(
            scores(shape, critic, mixed.unsqueeze(0), real_labels[r : r + 1]).sum(), mixed
        )
        total = total + 10.0 * (slope.norm() - 1) ** 2 / R
    loss = loss_of(shape, 10.0, critic, batch, 3)
    torch.testing.assert_close(loss.detach(), total.detach(), rtol=1e-6, atol=1e-6)


@SHAPES
def test_all_together_are_as_one_by_one_with_torch_s_adam(
    shape: CriticShape, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = minibatch(
        shape, torch.float64
    )  # else signs of tiny slopes decide, which Adam magnifies
    first = {name: value.double() for name, value in initial_critics(shape, K, 1).items()}
    ensemble = Ensemble.start(first)
    monkeypatch.setattr(critic_training, "fitting", lambda *_: 4)  # more than one chunk
    ensemble = update(shape, OPTIMIZER, ensemble, [batch] * 2)
    ensemble = update(shape, OPTIMIZER, ensemble, [batch] * 3)
    assert ensemble.num_updates == 5
    for k in range(K):
        critic = train_alone(shape, OPTIMIZER, one(first, k), [batch] * 5, k)
        for name, value in critic.items():
            torch.testing.assert_close(ensemble.critics[name][k], value, rtol=1e-6, atol=1e-7)


def test_both_convolutions_learn_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = minibatch(CONV, torch.float64)
    first = {name: value.double() for name, value in initial_critics(CONV, K, 1).items()}
    learned, asked = [], []
    for convolution in (GroupedConvolution, PatchedConvolution):
        monkeypatch.setitem(CONVOLUTIONS, "cpu", convolution)
        learned.append(update(CONV, OPTIMIZER, Ensemble.start(first), [batch] * 3).critics)
        found = image_gradients(CONV, learned[0], batch.images_ND, batch.image_labels_NL)
        asked.append(torch.cat(list(found)))
    for name, value in learned[0].items():
        torch.testing.assert_close(learned[1][name], value, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(asked[1], asked[0])


@SHAPES
def test_losses_are_those_of_one_by_one(shape: CriticShape) -> None:
    batch, first = minibatch(shape), initial_critics(shape, K, 1)
    gentle = CriticOptimizer(learning_rate=1e-3, penalty=10.0)
    together = update(shape, gentle, Ensemble.start(first), [batch] * 20).critics
    for k in range(K):
        alone = train_alone(shape, gentle, one(first, k), [batch] * 20, k)
        ends = one(together, k), alone, one(first, k)
        *losses, before = [loss_of(shape, 10.0, critic, batch, k).detach() for critic in ends]
        assert float(losses[0]) < float(before)
        torch.testing.assert_close(losses[0], losses[1], rtol=0, atol=1e-4)


@SHAPES
def test_image_gradients_against_finite_differences(shape: CriticShape) -> None:
    critics = {name: value.double() for name, value in initial_critics(shape, K, 4).items()}
    batch = minibatch(shape, torch.float64)
    found = torch.cat(list(image_gradients(shape, critics, batch.images_ND, batch.image_labels_NL)))
    assert found.shape == (K, N, shape.dimension)
    step = 1e-6
    for k, pixel in ((0, 0), (5, shape.dimension - 1)):
        ends = []
        for sign in (1, -1):
            images = batch.images_ND.clone()
            images[:, pixel] += sign * step
            ends.append(scores(shape, one(critics, k), images, batch.image_labels_NL))
        expected = -(ends[0] - ends[1]) / (2 * step)
        torch.testing.assert_close(found[k, :, pixel], expected, rtol=1e-5, atol=1e-7)


@SHAPES
def test_a_critic_sees_nothing_of_another(shape: CriticShape) -> None:
    batch = minibatch(shape)
    ensemble = Ensemble.start(initial_critics(shape, K, 1))
    other_records = batch.records_KRD.clone()
    other_records[2] = other_records[2] * -1e6
    other = replace(batch, records_KRD=other_records)
    first, second = (update(shape, OPTIMIZER, ensemble, [one_of]) for one_of in (batch, other))
    kept = [k for k in range(K) if k != 2]
    for name, value in first.critics.items():
        assert torch.equal(value[kept], second.critics[name][kept])
    assert not torch.equal(first.critics["weight0"][2], second.critics["weight0"][2])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no graphics card")
@SHAPES
def test_a_graphics_card_learns_the_same(shape: CriticShape) -> None:
    batch, first = minibatch(shape), initial_critics(shape, K, 1)
    there = Minibatch(**{name: getattr(batch, name).cuda() for name in batch.__slots__})
    moved = {name: value.cuda() for name, value in first.items()}
    gentle = CriticOptimizer(learning_rate=1e-3, penalty=10.0)
    learned = update(shape, gentle, Ensemble.start(first), [batch] * 10).critics
    found = update(shape, gentle, Ensemble.start(moved), [there] * 10).critics
    again = update(shape, gentle, Ensemble.start(moved), [there] * 10).critics
    for name, value in learned.items():
        assert torch.equal(found[name], again[name])
        torch.testing.assert_close(found[name].cpu(), value, rtol=1e-3, atol=1e-4)
    images = image_gradients(shape, found, there.images_ND, there.image_labels_NL)
    wanted = image_gradients(shape, learned, batch.images_ND, batch.image_labels_NL)
    torch.testing.assert_close(
        torch.cat(list(images)).cpu(), torch.cat(list(wanted)), rtol=1e-2, atol=1e-3
    )


def test_an_update_leaves_the_given_ensemble_as_it_was() -> None:
    ensemble = Ensemble.start(initial_critics(MLP, K, 1))
    before = copy.deepcopy(ensemble.critics)
    update(MLP, OPTIMIZER, ensemble, [minibatch(MLP)])
    assert all(torch.equal(before[name], value) for name, value in ensemble.critics.items())
    assert ensemble.means["weight0"].count_nonzero() == 0


@SHAPES
def test_first_weights_differ_and_have_the_usual_size(shape: CriticShape) -> None:
    critics = initial_critics(shape, 40, 9)
    assert sum(value[0].numel() for value in critics.values()) == shape.num_parameters
    assert critics["bias0"].count_nonzero() == 0
    assert not torch.equal(critics["weight1"][0], critics["weight1"][1])
    fan_in = critics["weight1"][0, 0].numel()
    assert float(critics["weight1"].std()) == pytest.approx(fan_in**-0.5, rel=0.1)
    fewer = initial_critics(shape, 3, 9)
    assert torch.equal(fewer["score"], critics["score"][:3])  # each from a stream of its own


def test_public_numbers_are_pinned() -> None:
    drawn = public_uniforms(7, "update|0", 3).tolist()
    assert drawn == public_uniforms(7, "update|0", 1000).tolist()[:3]
    assert drawn != public_uniforms(8, "update|0", 3).tolist()
    assert drawn != public_uniforms(7, "update|1", 3).tolist()
    many = public_uniforms(7, "x", 10_000)
    assert 0 <= float(many.min()) < float(many.max()) < 1
    assert float(many.mean()) == pytest.approx(0.5, abs=0.02)


def test_work_counts_every_multiplication() -> None:
    assert MLP.multiplications == MLP.num_parameters
    convolutions = 3 * 2 * 25 * (5 * 3) + 6 * 3 * 25 * (3 * 2) + 12 * 6 * 25 * (2 * 1)
    assert CONV.multiplications == CONV.num_parameters + convolutions


def test_an_update_imports_nothing() -> None:
    """It runs in threads: hundreds of modules loaded there, at the first step, can lock up."""
    program = """
import sys
from tests.unit.curator.divergences.test_critics import *
for shape in (MLP, CONV):
    batch, ensemble = minibatch(shape), Ensemble.start(initial_critics(shape, K, 1))
    before = set(sys.modules)
    ensemble = update(shape, OPTIMIZER, ensemble, [batch])
    list(image_gradients(shape, ensemble.critics, batch.images_ND, batch.image_labels_NL))
    print(len(set(sys.modules) - before))
"""
    root = Path(__file__).resolve().parents[4]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0", "0"]
