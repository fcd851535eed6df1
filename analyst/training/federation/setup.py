"""The curators of one session as a federation: for a new run, or for one that goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

from analyst.errors import FederationError
from analyst.training.checkpoint import Manifest
from analyst.training.federation.config import FederationConfig, MemberConfig
from analyst.training.federation.federation import Federation, Parameters
from analyst.training.federation.folder import FederationFolder, SavedFederation
from analyst.training.federation.members import ConnectMember, Say, connected
from analyst.training.federation.rounds import Combine, OnLoss, Rule


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class FederationSetup:
    """Who takes part, how each is reached, and what a run at each is opened with."""

    config: FederationConfig
    connect: ConnectMember
    folder: FederationFolder
    parameters: Parameters
    patience_s: float
    say: Say

    @contextmanager
    def new(self, combine: Combine) -> Iterator[Federation]:
        """Connect to all for a new run; one that does not answer is an error.

        Yields:
            The federation.
        """
        rule = self._rule(combine, self.config.on_loss or OnLoss.STOP)
        with self._federation(self.config.curator, rule, tolerant=False) as federation:
            yield federation

    @contextmanager
    def resumed(self, manifest: Manifest) -> Iterator[Federation]:
        """Connect to the curators of a run that goes on.

        Args:
            manifest: Of its checkpoint. Of a finished run, what could not be closed then is closed
                now, and its certificate fetched.

        Yields:
            The federation; under `continue` a curator that does not answer is lost.
        """
        saved = self.folder.load()
        rule = self._rule(saved.combine, self.config.on_loss or saved.on_loss)
        tolerant = rule.on_loss is OnLoss.CONTINUE
        configs = members_again(self.config, saved)
        with self._federation(configs, rule, tolerant=tolerant) as federation:
            federation.reached(manifest.next_step, manifest.num_steps)
            if manifest.finished:
                federation.resume_run(manifest.run_id)
                federation.close()
            yield federation

    def _rule(self, combine: Combine, on_loss: OnLoss) -> Rule:
        return Rule(combine=combine, on_loss=on_loss, patience_s=self.patience_s)

    @contextmanager
    def _federation(
        self, configs: Sequence[MemberConfig], rule: Rule, *, tolerant: bool
    ) -> Iterator[Federation]:
        reached = connected(configs, self.connect, tolerant=tolerant, say=self.say)
        with (
            reached as members,
            Federation(members, rule, self.parameters, folder=self.folder, say=self.say) as made,
        ):
            yield made


def members_again(config: FederationConfig, saved: SavedFederation) -> list[MemberConfig]:
    """Return the curators of a run that goes on: one that moved keeps its name and its weight.

    Raises:
        FederationError: If there are others, or answers would be combined in another way.
    """
    names = [one.name for one in saved.curators]
    if len(names) != len(config.curator):
        message = f"the run has {len(names)} curators: {', '.join(names)}"
        raise FederationError(message, "Name all of them in this order, lost ones too.")
    if config.combine not in {None, saved.combine}:
        message = f"a resumed run keeps its way to combine answers, '{saved.combine.value}'"
        raise FederationError(message, "Leave --combine out.")
    return [
        MemberConfig(
            address=now.address,
            name=one.name,
            credentials=now.credentials,
            insecure_loopback=now.insecure_loopback,
            dataset=one.dataset or None,
            weight=one.weight,
        )
        for now, one in zip(config.curator, saved.curators, strict=True)
    ]
