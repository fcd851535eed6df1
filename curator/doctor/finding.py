"""What a check found: how it stands, in words, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class State(StrEnum):
    """How it stands."""

    OK = "ok"
    ATTENTION = "attention"  # it works, but not as well or as safely as it could
    FAULT = "fault"  # 'curator serve' cannot work, or not rightly


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """Of one check. Words and facts are about the machine, the program and public names only.

    `next_step` is empty where all is well; `facts` are the same as plain values, for programs.
    """

    state: State
    words: str
    next_step: str = ""
    facts: dict[str, object] = field(default_factory=dict)


def well(words: str, **facts: object) -> Finding:
    """Return that all is well."""
    return Finding(state=State.OK, words=words, facts=facts)


def attention(words: str, next_step: str, **facts: object) -> Finding:
    """Return that somebody should look at it."""
    return Finding(state=State.ATTENTION, words=words, next_step=next_step, facts=facts)


def fault(words: str, next_step: str, **facts: object) -> Finding:
    """Return that the curator cannot serve as it is."""
    return Finding(state=State.FAULT, words=words, next_step=next_step, facts=facts)
