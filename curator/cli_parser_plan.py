"""`plan`, as data for argparse."""

from __future__ import annotations

from curator.cli_parser_data import Commands, directory_option

_MOST_POINTS = 50


def add_plan_command(commands: Commands) -> None:
    """Add `plan`.

    Args:
        commands: Of the whole program.
    """
    plan = commands.add_parser(
        "plan", help="show what an analyst's recipe would cost, also under another policy; free"
    )
    plan.add_argument("name", metavar="NAME", help="the data set")
    plan.add_argument("recipe", metavar="RECIPE.toml", help="a recipe of the analyst's")
    directory_option(plan)
    question = plan.add_argument_group("question (with both: which noise reaches both?)")
    question.add_argument("--for-steps", type=int, metavar="N", help="what would N steps cost?")
    question.add_argument("--for-epsilon", type=float, metavar="E", help="what would E buy?")
    question.add_argument(
        "--alone", action="store_true", help="also the epsilon of this run alone; takes seconds"
    )
    question.add_argument("--analyst", metavar="ANALYST", help="with the share of this analyst")
    table = plan.add_argument_group("table")
    table.add_argument(
        "--over",
        choices=("steps", "epsilon", "noise"),
        default="steps",
        help="what differs from row to row (%(default)s)",
    )
    table.add_argument(
        "--points",
        type=int,
        choices=range(1, _MOST_POINTS + 1),
        default=8,
        metavar="N",
        help=f"rows, at most {_MOST_POINTS} (%(default)s)",
    )
    policy = plan.add_argument_group("policy to try; nothing is changed")
    policy.add_argument("--set", action="append", metavar="RULE=VALUE", help="repeatable")
    policy.add_argument("--clear", action="append", metavar="RULE", help="repeatable")
    plan.set_defaults(command="plan")
