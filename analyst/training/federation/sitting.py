"""One sitting of a training run with several curators."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from analyst.embedding.sessions import resume_offline, train_offline
from analyst.recipes import Recipe, load_recipe, recipe_from_dict
from analyst.recipes.flags import read_overrides
from analyst.recipes.load import with_session
from analyst.training.checkpoint import CheckpointError
from analyst.training.federation.config import FederationConfig, MemberConfig
from analyst.training.federation.connecting import ConnectMember, connected
from analyst.training.federation.errors import FederationError
from analyst.training.federation.federation import Federation
from analyst.training.federation.folder import FederationFolder
from analyst.training.federation.member import Member
from analyst.training.federation.rule import Combine, OnLoss, Rule
from analyst.training.federation.summed import embedding_file, release_sum
from analyst.training.loop import Stop
from analyst.training.outputs import checkpoint_store
from analyst.training.progress import Progress
from analyst.training.session import SessionOptions, SessionResult, resume_session, run_session


@dataclass(frozen=True, kw_only=True, slots=True)
class Sitting:
    """What one sitting with several curators is given."""

    arguments: argparse.Namespace
    config: FederationConfig
    connect: ConnectMember
    progress: Progress
    stop: Stop

    @property
    def options(self) -> SessionOptions:
        """Where the run lives."""
        return SessionOptions(out=self.arguments.out, start_from=self.arguments.start_from)


def train_together(sitting: Sitting) -> SessionResult:
    """Open runs at all curators, or resume them, and train.

    Args:
        sitting: What to do, and where.

    Returns:
        How it ended.
    """
    if sitting.arguments.resume:
        return _resume(sitting)
    return _start(sitting)


def _start(sitting: Sitting) -> SessionResult:
    """Open runs at all curators and train.

    Raises:
        CheckpointError: If the output directory already holds a run.
    """
    options, progress = sitting.options, sitting.progress
    recipe = load_recipe(sitting.arguments.recipe, read_overrides(sitting.arguments))
    if checkpoint_store(options.out).exists():
        message = f"{options.out} already holds a run"
        raise CheckpointError(message, "Add --resume to go on with it, or choose another --out.")
    combine = sitting.config.combine
    if combine is None:
        combine = Combine.MEAN if recipe.mechanism.pays_per_step else Combine.SUM
    rule = _rule(recipe, combine, sitting.config.on_loss or OnLoss.STOP)
    reached = connected(sitting.config.curator, sitting.connect, tolerant=False, say=progress.say)
    with reached as members, _federation(sitting, members, recipe, rule) as federation:
        if combine is not Combine.SUM:
            return run_session(federation, recipe, options, progress, sitting.stop)
        release_sum(federation, recipe, options.out, progress)
    return train_offline(
        embedding_file(options.out), recipe, options, progress, sitting.stop
    )  # no curator is needed any more


def _resume(sitting: Sitting) -> SessionResult:
    options, progress = sitting.options, sitting.progress
    overrides = read_overrides(sitting.arguments)
    _, manifest = checkpoint_store(options.out).load()
    saved = FederationFolder(options.out).load()
    _check_same(sitting.config, saved.combine, [one.name for one in saved.members])
    if saved.combine is Combine.SUM:
        file = embedding_file(options.out)
        return resume_offline(file, overrides, options, progress, sitting.stop)
    origin = f"the recipe in {options.out}"
    recipe = with_session(
        recipe_from_dict(manifest.recipe, origin=origin), overrides, origin=origin
    )
    configs = [
        MemberConfig(
            address=config.address,
            name=one.name,  # a curator that moved keeps its name, and the weight it started with
            credentials=config.credentials,
            insecure_loopback=config.insecure_loopback,
            dataset=one.dataset or None,
            weight=one.weight,
        )
        for config, one in zip(sitting.config.curator, saved.members, strict=True)
    ]
    rule = _rule(recipe, saved.combine, sitting.config.on_loss or saved.on_loss)
    tolerant = rule.on_loss is OnLoss.CONTINUE
    reached = connected(configs, sitting.connect, tolerant=tolerant, say=progress.say)
    with reached as members, _federation(sitting, members, recipe, rule) as federation:
        federation.reached(manifest.next_step, manifest.num_steps)
        if manifest.finished:  # close what could not be closed then, and fetch its certificate
            federation.resume_run(manifest.run_id)
            federation.close()
        return resume_session(federation, overrides, options, progress, sitting.stop)


def _rule(recipe: Recipe, combine: Combine, on_loss: OnLoss) -> Rule:
    return Rule(combine=combine, on_loss=on_loss, patience_s=recipe.session.retry_for_s)


def _federation(sitting: Sitting, members: list[Member], recipe: Recipe, rule: Rule) -> Federation:
    return Federation(
        members,
        rule,
        recipe.mechanism.parameters,
        folder=FederationFolder(sitting.options.out),
        say=sitting.progress.say,
    )


def _check_same(config: FederationConfig, combine: Combine, names: list[str]) -> None:
    """Check that a resumed run is given the curators that it was started with.

    Raises:
        FederationError: If it has others, or answers would be combined in another way.
    """
    if len(names) != len(config.curator):
        message = f"the run has {len(names)} curators: {', '.join(names)}"
        raise FederationError(message, "Name all of them in this order, lost ones too.")
    if config.combine not in {None, combine}:
        message = f"a resumed run keeps its way to combine answers, '{combine.value}'"
        raise FederationError(message, "Leave --combine out.")
