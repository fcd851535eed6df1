"""What a steward declares of a data set, as options: its budget, and its public facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from curator.cli.command import UsageProblem
from curator.cli.reading import classes_of, rate, shape_of

if TYPE_CHECKING:
    from curator.privacy.facts import DatasetFacts

_AS_THEY_ARE = (
    *("max_level", "nominal_size", "max_size", "sampling_rate", "capacity"),
    *("max_records_per_group", "epsilon", "delta"),
)


def _budget(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Budget and neighbouring relation", **more)


def _fact(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Public facts", **more)


@dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """What the steward declares, for ever: nothing of it is read off the images."""

    epsilon: Annotated[float, _budget(metavar="E", help="Cap over all analysts.")]
    delta: Annotated[float, _budget(metavar="D", help="Below 1 / number of people.")]
    adjacency: Annotated[
        Literal["add-or-remove-one-record", "add-or-remove-one-group"],
        _budget(
            metavar="RELATION",
            help="add-or-remove-one-record, or add-or-remove-one-group: what two neighbouring data "
            "sets differ by; a group is all records of one person.",
        ),
    ]
    classes: Annotated[
        str,
        _fact(
            metavar="A,B",
            help="Names by label, such as 0,1,2 or cat,dog; image folders: of the subfolders or "
            "labels.",
        ),
    ]
    image_shape: Annotated[str, _fact(metavar="CxHxW", help="Such as 1x28x28.")]
    nominal_size: Annotated[int, _fact(metavar="N", help="Published size, in units.")]
    max_size: Annotated[int, _fact(metavar="N", help="Upper bound of the size.")]
    max_records_per_group: Annotated[
        int | None,
        _fact(
            metavar="K",
            help="Of each group the first K records are kept; needed with one-group, where sizes "
            "and Q count groups and the capacity counts records.",
        ),
    ] = None
    sampling_rate: Annotated[
        float,
        _fact(
            metavar="Q",
            parser=rate,
            help="Largest probability of a unit in one step, such as 50/60000 or 0.001.",
        ),
    ]
    capacity: Annotated[
        int,
        _fact(metavar="N", help="Rows that a private batch is padded to; about q n + 8 sqrt(q n)."),
    ]
    max_level: Annotated[int, _fact(metavar="N", help="Level of a white pixel.")] = 255

    def facts(self, name: str) -> DatasetFacts:
        """Return them for a data set of this name.

        Raises:
            UsageProblem: If one is not valid.
        """
        from pydantic import ValidationError

        from curator.privacy.facts import DatasetFacts
        from curator.validation_errors import first_problem

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
                    "name": name,
                    "channels": channels,
                    "height": height,
                    "width": width,
                    "classes": classes_of(self.classes),
                    "relation": relation,
                    "unit": unit,
                    **{one: getattr(self, one) for one in _AS_THEY_ARE},
                }
            )
        except ValidationError as error:
            raise UsageProblem(first_problem(error, "data set")) from None
