"""Reaching several curators at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from analyst.errors import AnalystError
from analyst.training.federation.config import MemberConfig
from analyst.training.federation.member import Member
from analyst.training.run_source import Curator

ConnectMember = Callable[[MemberConfig], AbstractContextManager[Curator]]
Say = Callable[[str], None]


@contextmanager
def connected(
    configs: Sequence[MemberConfig], connect: ConnectMember, *, tolerant: bool, say: Say
) -> Iterator[list[Member]]:
    """Connect to several curators while the block runs.

    Args:
        configs: In the public order.
        connect: Reaches one.
        tolerant: Take one that cannot be reached as lost, instead of an error.
        say: Told which cannot be reached.

    Yields:
        The curators.

    Raises:
        AnalystError: If one cannot be reached and that is an error.
    """
    with ExitStack() as stack:
        members = []
        for config in configs:
            member = Member(config=config, barrier=None)
            try:
                member.barrier = stack.enter_context(connect(config))
            except AnalystError as error:
                say(f"curator {config.label}: {error.message}")
                if not tolerant:
                    raise
                member.problem = error
            members.append(member)
        yield members
