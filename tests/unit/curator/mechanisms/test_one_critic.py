"""GS-WGAN with one critic a step: what is released, what it costs, what a state may depend on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from curator.accounting.cost import event_cost
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.hidden_part import HiddenPartEvent
from curator.accounting.events.none import NoEvent
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.divergences.critic_training import image_gradients
from curator.errors import MalformedRequest
from curator.mechanisms.base import StatefulMechanism
from curator.mechanisms.gs_wgan_decoupled import GsWganDecoupled, GsWganDecoupledSpec
from curator.mechanisms.gs_wgan_mean import GsWganMeanSpec
from curator.mechanisms.gs_wgan_round_robin import GsWganRoundRobin
from curator.mechanisms.shard_networks import NetworkState
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer.averaged import FINE_STD, fine_radius
from curator.sanitizer.secret_index import secret_index
from curator.service.answer_step import release_gradient
from curator.state.asking import state_step
from tests.fakes.curator import ALICE, memory_ledger, opened, service, step_request
from tests.fakes.noise import NoNoise
from tests.unit.curator.mechanisms.test_gs_wgan_mean import PARAMETERS, SPACE, samples

K = 6
ONE: dict[str, Any] = {**PARAMETERS, "num_critics": K}


class Drawn(NoNoise):
    """No noise, and secret draws that a test chose."""

    def __init__(self, *indices: int) -> None:
        self._indices = list(indices)

    def uniform_words(self, num_words: int) -> Tensor:
        words = [(self._indices.pop(0) * 2**64 // K + 1) for _ in range(num_words)]
        signed = [word - 2**64 if word >= 2**63 else word for word in words]
        return torch.tensor(signed, dtype=torch.int64)


def decoupled(**changes: object) -> GsWganDecoupled:
    return GsWganDecoupled(GsWganDecoupledSpec(**(ONE | {"critics_per_step": 2} | changes)), SPACE)


def round_robin(**changes: object) -> GsWganRoundRobin:
    return GsWganRoundRobin(GsWganMeanSpec(**(ONE | changes)), SPACE)


def records(kept: np.ndarray | None = None) -> PrivateRecords:
    generator = np.random.default_rng(2)
    kept = np.arange(40) if kept is None else kept
    levels = generator.integers(0, 17, (40, 1, 2, 3), dtype=np.uint8)[kept]
    return PrivateRecords(LabelledImages(levels=levels, labels=(np.arange(40) % 3)[kept]), 40)


def started(subject: GsWganDecoupled | GsWganRoundRobin, kept: Any = None) -> NetworkState:
    return subject.start(records(kept).batches(8))


def integers(release: Release) -> Tensor:
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    return block.integers


def values(state: NetworkState) -> list[Tensor]:
    ensemble = state.ensemble
    parts = (ensemble.critics, ensemble.means, ensemble.squares)
    return [value.clone() for part in parts for value in part.values()]


def after(subject: Any, draws: list[int], kept: Any = None) -> tuple[list[Tensor], list[Tensor]]:
    """Return the state after some steps, and each step's integers."""
    state, found, noise = started(subject, kept), [], Drawn(*draws)
    for step in range(len(draws)):
        state, release = state_step(subject, state, step + 1, samples(seed=step), noise)
        found.append(integers(release))
    return values(state), found


def moved(first: list[Tensor], second: list[Tensor]) -> set[int]:
    return {k for a, b in zip(first, second, strict=True) for k in range(K) if (a[k] != b[k]).any()}


def test_both_are_stateful_and_say_what_they_cost() -> None:
    for subject in (decoupled(), round_robin()):
        assert isinstance(subject, StatefulMechanism)
        assert subject.rows_per_step == 4
        assert subject.noise_multiplier == 1.1
    assert decoupled().setup_event() == NoEvent()
    assert decoupled().step_event() == HiddenPartEvent(num_parts=K, noise_multiplier=1.1)
    assert round_robin().setup_event() == GaussianEvent(noise_multiplier=1.1)


@pytest.mark.parametrize("critic", ["mlp", "conv"])
@pytest.mark.parametrize("index", [0, 4])
def test_the_answer_is_one_critic_s_clipped_gradient(critic: str, index: int) -> None:
    subject = decoupled(critic=critic)
    state, release = subject.gradient(started(subject), samples(), Drawn(index))
    images = subject.networks.images(samples())
    shape, critics = subject.networks.shape, state.ensemble.critics
    every = torch.cat(list(image_gradients(shape, critics, *images)))
    gradients = every[index].double()
    lengths = gradients.norm(dim=1, keepdim=True)
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    expected = gradients * (0.5 / lengths).clamp(max=1)
    torch.testing.assert_close(block.integers.double() * block.grid, expected, rtol=0, atol=1e-5)
    assert 1 <= FINE_STD * block.grid / (1.1 * 2 * 0.5 * 4**0.5) < 1 + 1e-6


def test_nothing_that_is_kept_depends_on_what_was_drawn() -> None:
    """Also not how critics answer later."""
    first, answers = after(decoupled(), [0, 1, 2, 3, 0])
    second, others = after(decoupled(), [5, 5, 5, 5, 0])
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not torch.equal(answers[0], others[0])
    assert torch.equal(answers[-1], others[-1])


def test_critics_are_updated_in_public_turns() -> None:
    subject = decoupled()
    state, seen = started(subject), []
    state, _ = subject.gradient(state, samples(), Drawn(0))  # the warm start moves all
    for step in range(1, 7):
        before = values(state)
        state, _ = subject.gradient(state, samples(seed=step), Drawn(5))
        seen.append(moved(before, values(state)))
    assert seen == [{2, 3}, {4, 5}, {0, 1}, {2, 3}, {4, 5}, {0, 1}]


def test_an_update_does_not_depend_on_who_else_has_a_turn() -> None:
    two, _ = after(decoupled(critics_per_step=2), [0])
    every, _ = after(decoupled(critics_per_step=K), [0])
    assert moved(two, every) == {2, 3, 4, 5}  # these had none yet


@pytest.mark.parametrize("make", [decoupled, round_robin], ids=["decoupled", "round-robin"])
def test_one_unit_moves_one_critic_and_its_answer_within_the_ball(make: Any) -> None:
    draws = [0, 1, 2, 3, 4, 5] * 2
    whole, answers = after(make(), draws)
    for removed in range(0, 40, 9):
        rest, others = after(make(), draws, np.delete(np.arange(40), removed))
        changed = moved(whole, rest)
        assert len(changed) <= 1
        asked = [
            step for step, (a, b) in enumerate(zip(answers, others, strict=True)) if (a != b).any()
        ]
        assert {draws[step] for step in asked} <= changed  # round robin asks in this order too
        for step in asked:
            apart = int((answers[step] - others[step]).square().sum())
            assert apart <= (2 * fine_radius(1.1)) ** 2


def test_two_critics_that_disagree_are_two_radii_apart_at_most() -> None:
    radius = fine_radius(1.1)
    answers = [after(decoupled(clip_norm=1e-6), [k])[1][0] for k in range(K)]
    for first in answers:
        assert int(first.square().sum()) <= radius**2


def test_an_empty_shard_says_nothing_and_what_fails_is_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subject = decoupled()
    state = subject.start(
        PrivateRecords(
            LabelledImages(
                levels=np.zeros((0, 1, 2, 3), dtype=np.uint8), labels=np.zeros(0, dtype=np.int64)
            ),
            40,
        ).batches(8)
    )
    _, release = subject.gradient(state, samples(), Drawn(3))
    assert integers(release).count_nonzero() == 0

    def fail(*_: Any) -> Any:
        raise ValueError("row 17")

    state = started(subject)
    monkeypatch.setattr("curator.mechanisms.one_critic.image_gradients", fail)
    _, release = subject.gradient(state, samples(), Drawn(3))
    assert integers(release).count_nonzero() == 0


@pytest.mark.parametrize("make", [decoupled, round_robin], ids=["decoupled", "round-robin"])
def test_a_state_that_was_packed_goes_on_alike(make: Any) -> None:
    subject = make()
    state, noise = started(subject), Drawn(*[1] * 8)
    for step in range(4):
        state, _ = state_step(subject, state, step + 1, samples(seed=step), noise)
    packed = {name: value.clone() for name, value in subject.pack(state).items()}
    again = subject.unpack(packed, records().batches(8))
    for step in range(4, 6):
        state, first = state_step(subject, state, step + 1, samples(seed=step), noise)
        again, second = state_step(subject, again, step + 1, samples(seed=step), noise)
        assert torch.equal(integers(first), integers(second))
    assert all(torch.equal(a, b) for a, b in zip(values(state), values(again), strict=True))


@pytest.mark.parametrize("num_steps", [1, 5, 6, 7, 12, 13, 1000])
def test_a_public_round_is_charged_for_all_that_a_unit_was_used(num_steps: int) -> None:
    subject = round_robin()
    charged = event_cost(subject.setup_event()) + event_cost(subject.step_event()) * num_steps
    used = event_cost(GaussianEvent(noise_multiplier=1.1)) * -(-num_steps // K)
    for paid, cost in zip(charged.units, used.units, strict=True):
        assert paid is not None
        assert cost is not None
        assert paid >= cost
    assert charged.units[0] is not None
    assert used.units[0] is not None
    assert charged.units[0] <= used.units[0] * (1 + K / num_steps) * 1.001


def test_whose_turn_it_is_follows_from_the_ledger_s_number() -> None:
    """Also of a state that is older than the ledger, or that never moved on."""
    subject = round_robin(warm_start_steps=0)
    state = started(subject)
    for step in (4, 4 + K, 9):
        before = values(state)
        state, _ = state_step(subject, state, step, samples(seed=step), NoNoise())
        assert moved(before, values(state)) == {(step - 1) % K}


def test_a_round_is_charged_with_the_first_step() -> None:
    ledger = memory_ledger()
    first = service(ledger, noise=NoNoise())
    run = opened(first, "gs-wgan-round-robin", num_steps=4)
    assert ledger.account("small").spent.is_zero
    for step in (1, 2):
        release_gradient(first, ALICE, step_request(run.run_id, step)).result(20)
        state = ledger.run(run.run_id)
        assert state.setup_begun
        assert ledger.account("small").spent == state.setup + state.step * state.used
    assert not run.setup.is_zero


def test_a_secret_index_is_uniform() -> None:
    class Word(NoNoise):
        def __init__(self, word: int) -> None:
            self._word = word

        def uniform_words(self, num_words: int) -> Tensor:
            signed = self._word - 2**64 if self._word >= 2**63 else self._word
            return torch.full((num_words,), signed, dtype=torch.int64)

    for num_parts in (1, 3, 1000):
        assert secret_index(Word(0), num_parts) == 0
        assert secret_index(Word(2**64 - 1), num_parts) == num_parts - 1
        for k in range(1, min(num_parts, 50)):
            first = -(-(k << 64) // num_parts)  # the first word of index k
            assert secret_index(Word(first), num_parts) == k
            assert secret_index(Word(first - 1), num_parts) == k - 1


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(MalformedRequest, match="divide"):
        decoupled(critics_per_step=4)
    with pytest.raises(MalformedRequest, match="noise_multiplier"):
        round_robin(num_critics=4000, noise_multiplier=20_000.0, critic_width=1, shard_capacity=1)
