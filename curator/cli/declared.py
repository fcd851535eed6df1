"""What a steward declares of a data set, as options: its budget, and its public facts."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar, Literal

from curator.cli.command import UsageProblem
from curator.cli.options import option
from curator.cli.reading import classes_of, rate, shape_of
from curator.privacy.budget import MAX_DELTA, MAX_EPSILON, MIN_DELTA

if TYPE_CHECKING:
    from curator.privacy.facts import DatasetFacts

_BUDGET = "Budget and neighbouring relation"


@dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """What the steward declares, for ever: nothing of it is read off the images."""

    SECTION: ClassVar = "Public facts"

    epsilon: float = option(
        f"Cap over all analysts: above 0, at most {MAX_EPSILON:g}.", "E", group=_BUDGET, needed=True
    )
    delta: float = option(
        f"Above {MIN_DELTA:g}, at most {MAX_DELTA:g}, and far below 1 / number of people.",
        "D",
        group=_BUDGET,
        needed=True,
    )
    adjacency: Literal["add-or-remove-one-record", "add-or-remove-one-group"] = option(
        "add-or-remove-one-record, or add-or-remove-one-group: what two neighbouring data "
        "sets differ by; a group is all records of one person.",
        "RELATION",
        group=_BUDGET,
        needed=True,
    )
    classes: str = option(
        "Names by label, such as 0,1,2 or cat,dog; image folders: of the subfolders or labels.",
        "A,B",
        needed=True,
    )
    image_shape: str = option("Such as 1x28x28.", "CxHxW", needed=True)
    nominal_size: int = option("Published size, in units.", "N", needed=True)
    max_size: int = option("Upper bound of the size.", "N", needed=True)
    max_records_per_group: int | None = option(
        "Of each group the first K records are kept; needed with one-group, where sizes "
        "and Q count groups and the capacity counts records.",
        "K",
    )
    sampling_rate: float = option(
        "Largest probability of a unit in one step, such as 50/60000 or 0.001.",
        "Q",
        parser=rate,
        needed=True,
    )
    capacity: int = option(
        "Rows that a private batch is padded to; about q n + 8 sqrt(q n).", "N", needed=True
    )
    max_level: int = option("Level of a white pixel, at most 65,535.", "N", default=255)

    def facts(self, name: str) -> DatasetFacts:
        """Return them for a data set of this name.

        Raises:
            UsageProblem: If one is not valid.
        """
        from pydantic import ValidationError

        from curator.privacy.facts import DatasetFacts
        from curator.validation_errors import first_problem

        known = DatasetFacts.model_fields
        channels, height, width = shape_of(self.image_shape)
        relation, _, unit = self.adjacency.partition("-one-")
        if self.delta * self.nominal_size >= 1:
            msg = (
                f"delta: {self.delta:g} is not below 1 / --nominal-size, so it would allow that "
                "one of the images is given away whole: choose a far smaller one"
            )
            raise UsageProblem(msg)
        try:
            return DatasetFacts.model_validate(
                {
                    **{
                        one.name: getattr(self, one.name)
                        for one in fields(self)
                        if one.name in known
                    },
                    "name": name,
                    "channels": channels,
                    "height": height,
                    "width": width,
                    "classes": classes_of(self.classes),
                    "relation": relation,
                    "unit": unit,
                }
            )
        except ValidationError as error:
            raise UsageProblem(_as_typed(first_problem(error, "data set"))) from None


def _as_typed(problem: str) -> str:
    """Return what is wrong with the facts, with options in the place of their fields' names."""
    names = "|".join(one.name for one in fields(Declared))
    return re.sub(
        rf"(?<![-\w])({names})\b", lambda found: "--" + found[1].replace("_", "-"), problem
    )
