"""One session of an evolution: open or resume, ask for votes, let what has votes go on.

Candidates are in the checkpoint before they are sent, so a run that was killed asks again with the
very same bytes, and a step that was charged is not paid twice.

Shapes: N candidates, C channels, H height, W width.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Generator, Tensor

from analyst.errors import CheckpointError, RecipeError
from analyst.evaluation.image_file import LabelledImages
from analyst.evolution.choice import drawn, shares
from analyst.evolution.proposer import Proposer, checked, make_proposer
from analyst.evolution.recipe import EVOLUTIONS, EvolutionRecipe
from analyst.generators.generator import ImageShape
from analyst.generators.sampling import balanced_labels
from analyst.recipes.mechanisms import VOTES
from analyst.training.checkpoint import (
    Manifest,
    check_no_run,
    checkpoint_store,
    image_shape,
    must_fit_recipe,
    read_run,
)
from analyst.training.grid import to_pixels
from analyst.training.loop import Asker, Observer, Outcome, Stop, StopAsked, Update
from analyst.training.progress import Progress
from analyst.training.run_files import Outputs, Trained
from analyst.training.run_source import RunSource, VotingRun
from analyst.training.session import carry_through

_PER_STEP: Final = 1_000_003  # seeds of steps are apart
_TENSORS: Final = ("labels_N", "candidates_NCHW", "sent_NCHW", "voted_NCHW", "shares_N")


@dataclass(frozen=True, kw_only=True, slots=True)
class EvolutionOptions:
    """Where a session reads and writes, whom it tells, and who stops it."""

    out: Path
    progress: Progress
    stop: Stop


@dataclass(slots=True)
class EvolutionState:
    """The candidates that are asked about next, and those that were, with their shares.

    Images are bytes, as a curator compares them; `sent` stands for the candidates.
    """

    labels_N: Tensor
    candidates_NCHW: Tensor
    sent_NCHW: Tensor
    voted_NCHW: Tensor
    shares_N: Tensor
    num_updates: int = 0

    def tensors(self) -> dict[str, Tensor]:
        """Return the state as named tensors, copied."""
        return {name: getattr(self, name).clone().contiguous() for name in _TENSORS}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Restore what `tensors` returned into a state of the same recipe.

        Raises:
            KeyError: If one is missing.
            ValueError: If one has another shape or type.
        """
        for name in _TENSORS:
            mine, saved = getattr(self, name), tensors[name]
            if (mine.shape, mine.dtype) != (saved.shape, saved.dtype):
                msg = f"{name} has another shape or type"
                raise ValueError(msg)
            setattr(self, name, saved)


@dataclass(frozen=True, kw_only=True, slots=True)
class Evolution:
    """What does not change in a run."""

    recipe: EvolutionRecipe
    shape: ImageShape
    proposer: Proposer

    @property
    def per_class(self) -> int:
        """Candidates of each class."""
        num_candidates: int = self.recipe.mechanism.num_candidates
        return num_candidates // self.shape.num_classes

    def begin(self) -> EvolutionState:
        """Return the state before the first vote."""
        randomness = self._randomness(0)
        count, classes = self.per_class, range(self.shape.num_classes)
        made = [self.proposer.propose(count, label, randomness) for label in classes]
        images = torch.cat([checked(one, count, self.shape, "propose") for one in made])
        levels = _levels(images)
        state = EvolutionState(
            labels_N=torch.arange(self.shape.num_classes).repeat_interleave(count),
            candidates_NCHW=levels,
            sent_NCHW=levels,
            voted_NCHW=levels,
            shares_N=torch.full((len(levels),), 1 / count, dtype=torch.float64),
        )
        state.sent_NCHW = self._standing_for(levels, state, randomness)
        return state

    def asked(self, state: EvolutionState) -> tuple[Tensor, Tensor, int]:
        """Return what is sent: images in [-1, 1], their labels, and the number of candidates."""
        labels_N = state.labels_N.repeat_interleave(self.recipe.mechanism.images_per_candidate)
        return state.sent_NCHW.float() / 127.5 - 1, labels_N, len(state.labels_N)

    def go_on(self, state: EvolutionState, votes_N: Tensor, *, is_last: bool) -> None:
        """Let what has votes go on, and make the next candidates of it, in place.

        Args:
            state: Changed.
            votes_N: Noised counts of the candidates that were sent.
            is_last: Whether nothing is asked any more.
        """
        choice = self.recipe.choice
        std = self.recipe.mechanism.noise_multiplier * self.recipe.mechanism.max_records_per_unit
        state.shares_N = shares(votes_N, state.labels_N, choice.threshold * std)
        state.voted_NCHW = state.candidates_NCHW
        state.num_updates += 1
        if not is_last:
            self.breed(state)

    def is_bred(self, state: EvolutionState) -> bool:
        """Return whether candidates are newer than the last votes: not if making them failed."""
        is_new = not torch.equal(state.candidates_NCHW, state.voted_NCHW)
        return state.num_updates == 0 or is_new

    def breed(self, state: EvolutionState) -> None:
        """Make the next candidates of what has votes, in place."""
        choice, randomness = self.recipe.choice, self._randomness(state.num_updates)
        num_kept = int(choice.keep * self.per_class)
        parts = []
        for label in range(self.shape.num_classes):
            parents = self._parents(state, label, self.per_class, randomness)
            order = torch.randperm(len(parents), generator=randomness)
            kept, rest = parents[order[:num_kept]], parents[order[num_kept:]]
            varied = self._varied(rest, label, self.degree(state.num_updates), randomness)
            parts.append(torch.cat((kept, varied)))
        candidates_NCHW = torch.cat(parts)
        state.sent_NCHW = self._standing_for(candidates_NCHW, state, randomness)
        state.candidates_NCHW = candidates_NCHW

    def degree(self, num_votes: int) -> float:
        """Return how different variations are after so many votes."""
        choice, steps = self.recipe.choice, self.recipe.training.steps
        if steps < 3:
            return choice.first_degree
        share = min(1.0, (num_votes - 1) / (steps - 2))
        degree: float = choice.first_degree ** (1 - share) * choice.last_degree**share
        return degree

    def sample(self, state: EvolutionState, labels_n: Tensor, randomness: Generator) -> Tensor:
        """Return bytes [n, C, H, W] of these classes, in proportion to the last votes."""
        found = torch.empty((len(labels_n), *state.voted_NCHW.shape[1:]), dtype=torch.uint8)
        for label in range(self.shape.num_classes):
            places = (labels_n == label).nonzero().flatten()
            parents = self._parents(state, label, len(places), randomness)
            order = torch.randperm(len(places), generator=randomness)
            degree = self.recipe.choice.sample_degree
            found[places[order]] = self._varied(parents, label, degree, randomness)
        return found

    def _parents(
        self, state: EvolutionState, label: int, count: int, randomness: Generator
    ) -> Tensor:
        """Return bytes of candidates of a class, in proportion to their shares."""
        places = (state.labels_N == label).nonzero().flatten()
        return state.voted_NCHW[places[drawn(state.shares_N[places], count, randomness)]]

    def _varied(
        self, levels_NCHW: Tensor, label: int, degree: float, randomness: Generator
    ) -> Tensor:
        """Return a variation of each, as bytes."""
        if degree == 0 or not len(levels_NCHW):
            return levels_NCHW
        images = levels_NCHW.float() / 127.5 - 1
        made = self.proposer.vary(images, label, degree, randomness)
        return _levels(checked(made, len(images), self.shape, "vary"))

    def _standing_for(
        self, candidates_NCHW: Tensor, state: EvolutionState, randomness: Generator
    ) -> Tensor:
        """Return what is sent: candidates, or the images whose mean stands for each of them."""
        ahead = self.recipe.choice.lookahead
        if not ahead:
            return candidates_NCHW
        degree = self.degree(state.num_updates + 1)
        parts = []
        for label in range(self.shape.num_classes):
            levels = candidates_NCHW[state.labels_N == label].repeat_interleave(ahead, dim=0)
            parts.append(self._varied(levels, label, degree, randomness))
        varied = torch.cat(parts)
        if self.recipe.mechanism.images_per_candidate == ahead > 1:
            return varied
        sums = varied.reshape(-1, ahead, *varied.shape[1:]).float()
        return sums.mean(dim=1).round().to(torch.uint8)

    def _randomness(self, step: int) -> Generator:
        seed = (self.recipe.training.seed * _PER_STEP + step) % 2**63
        return torch.Generator().manual_seed(seed)


def start_evolution(
    curator: RunSource[VotingRun], recipe: EvolutionRecipe, options: EvolutionOptions
) -> Outcome:
    """Propose the first candidates, open a new run and ask for its votes.

    Raises:
        CheckpointError: If the output directory already holds a run.
        RecipeError: If the proposer cannot make the data set's images.
    """
    check_no_run(options.out)
    facts = curator.describe(recipe.training.dataset)
    evolution = _evolution(recipe, facts.image())
    state = evolution.begin()  # before anything is charged
    mechanism = recipe.mechanism
    run = curator.open_run(
        facts.name,
        mechanism.wire_name,
        mechanism.parameters(facts),
        num_steps=recipe.training.steps,
    )
    outputs = _outputs(evolution, state, facts.image(), run, options)
    outputs.opened()
    return _carry(evolution, state, run, outputs, options)


def resume_evolution(curator: RunSource[VotingRun], options: EvolutionOptions) -> Outcome:
    """Go on with the run of an output directory.

    Returns:
        How it ended; at once if the run was finished before.

    Raises:
        CheckpointError: If there is no checkpoint, or it is damaged, or of no evolution.
    """
    tensors, manifest = checkpoint_store(options.out).load()
    evolution, state = _loaded(options.out, tensors, manifest)
    if manifest.finished:
        options.progress.say(f"run {manifest.run_id} is finished; there is nothing to resume")
        return Outcome.COMPLETED
    run = curator.resume_run(manifest.run_id)
    run.go_back(manifest.next_step)  # what was on its way is in the checkpoint: the answer is free
    outputs = _outputs(evolution, state, manifest.dataset, run, options)
    outputs.resumed(manifest.next_step)
    if run.next_step <= run.num_steps and not evolution.is_bred(state):
        evolution.breed(state)
        outputs.save_checkpoint()
    return _carry(evolution, state, run, outputs, options)


def sample_evolved(
    directory: Path, count: int, *, seed: int, step: int | None = None
) -> LabelledImages:
    """Return images like those that had votes, with balanced labels; it costs nothing.

    Args:
        directory: A run's output directory.
        count: Number of images.
        seed: Of labels, choices and variations.
        step: Votes of a kept checkpoint; by default the newest.

    Raises:
        CheckpointError: If no vote was answered yet.
    """
    tensors, manifest = read_run(directory, num_updates=step)
    evolution, state = _loaded(directory, tensors, manifest)
    if not state.num_updates:
        message = f"the run in {directory} has no votes yet"
        raise CheckpointError(message, "Add --resume to 'evolve' to go on with it.")
    randomness = torch.Generator().manual_seed(seed)
    labels_n = balanced_labels(count, evolution.shape.num_classes, randomness)
    return LabelledImages(
        evolution.sample(state, labels_n, randomness).numpy(),
        labels_n.numpy().astype(np.int64),
        classes=tuple(map(str, manifest.dataset["classes"])),
        run_id=manifest.run_id,
    )


def _loaded(
    out: Path, tensors: dict[str, Tensor], manifest: Manifest
) -> tuple[Evolution, EvolutionState]:
    """Return what a checkpoint holds.

    Raises:
        CheckpointError: If it is of a run of another kind, or does not fit its recipe.
    """
    kind = manifest.recipe.get("mechanism", {}).get("kind")
    if kind != VOTES:
        message = f"the run in {out} is of {kind}, and not of 'analyst evolve'"
        raise CheckpointError(message, "Give the --out of that command.")
    recipe = EVOLUTIONS.from_dict(manifest.recipe, origin=f"the recipe in {out}")
    evolution = _evolution(recipe, manifest.dataset)
    shape, count = evolution.shape, recipe.mechanism.num_candidates
    size = (shape.channels, shape.height, shape.width)
    blank = torch.zeros((count, *size), dtype=torch.uint8)
    state = EvolutionState(
        labels_N=torch.zeros(count, dtype=torch.int64),
        candidates_NCHW=blank,
        sent_NCHW=blank.repeat_interleave(recipe.mechanism.images_per_candidate, dim=0),
        voted_NCHW=blank,
        shares_N=torch.zeros(count, dtype=torch.float64),
        num_updates=manifest.num_updates,
    )
    with must_fit_recipe(out):
        state.load(tensors)
    return evolution, state


def _evolution(recipe: EvolutionRecipe, dataset: dict[str, Any]) -> Evolution:
    """Return what makes candidates of a data set.

    Raises:
        RecipeError: If candidates cannot be shared out among its classes, or cannot be made.
    """
    shape = image_shape(dataset)
    if recipe.mechanism.num_candidates % shape.num_classes:
        message = (
            f"mechanism.num_candidates is {recipe.mechanism.num_candidates}, and the data set has "
            f"{shape.num_classes} classes"
        )
        raise RecipeError(message, "Set a multiple of the number of classes.")
    folder = Path(recipe.proposer.fonts) if recipe.proposer.fonts else None
    classes = tuple(map(str, dataset["classes"]))
    proposer = make_proposer(recipe.proposer.source, shape, classes, folder)
    return Evolution(recipe=recipe, shape=shape, proposer=proposer)


def _outputs(
    evolution: Evolution,
    state: EvolutionState,
    dataset: dict[str, Any],
    run: VotingRun,
    options: EvolutionOptions,
) -> Outputs:
    session = evolution.recipe.session
    trained = Trained(
        tensors=state.tensors,
        num_updates=lambda: state.num_updates,
        recipe=EVOLUTIONS.to_dict(evolution.recipe),
        dataset=dataset,
        pays_per_step=True,
        count=lambda update: update.step,
        metrics_every=session.metrics_every,
        checkpoint_every=session.checkpoint_every,
    )
    return Outputs(options.out, run, trained, options.progress)


def _carry(
    evolution: Evolution,
    state: EvolutionState,
    run: VotingRun,
    outputs: Outputs,
    options: EvolutionOptions,
) -> Outcome:
    work = partial(follow, evolution, state, run, observer=outputs, stop=options.stop)
    return carry_through(outputs, run, options.progress, work)


def follow(
    evolution: Evolution,
    state: EvolutionState,
    run: VotingRun,
    *,
    observer: Observer,
    stop: Stop,
) -> Outcome:
    """Ask for votes until the declared steps are used or a stop is asked.

    Returns:
        Why it ended. Any error of the barrier other than a lost step is raised, with `state` as
        before the failed step.
    """
    ask = Asker(run, evolution.recipe.session.retry_for_s, observer, stop)
    try:
        while run.next_step <= run.num_steps:
            if stop.asked:
                return Outcome.STOPPED
            votes_N = ask(lambda: run.votes(*evolution.asked(state)))
            if votes_N is not None:
                evolution.go_on(state, votes_N, is_last=run.next_step > run.num_steps)
                observer.updated(
                    Update(
                        step=run.next_step - 1,
                        num_updates=state.num_updates,
                        learning_rate=evolution.degree(state.num_updates),
                        gradient_norm=float(torch.linalg.vector_norm(votes_N)),
                    )
                )
    except StopAsked:
        return Outcome.STOPPED
    return Outcome.COMPLETED


def _levels(images_NCHW: Tensor) -> Tensor:
    return torch.from_numpy(to_pixels(images_NCHW))
