"""The options of `analyst adapt`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from analyst.training.federation.flags import add_rule


def add_adapt(
    parser: argparse.ArgumentParser, add_connection: Callable[[argparse.ArgumentParser], None]
) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """Add the two actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    text = "train on labelled public images, drawn to a private set without labels"
    train = actions.add_parser("train", help=text, description=text, allow_abbrev=False)
    add_connection(train)
    start = train.add_mutually_exclusive_group(required=True)
    start.add_argument("--recipe", metavar="NAME|FILE.toml", help="such as mnist-to-usps")
    start.add_argument("--resume", action="store_true", help="go on with the run in --out")
    train.add_argument(
        "--source", type=Path, required=True, metavar="FILE.npz", help="labelled public images"
    )
    train.add_argument("--out", type=Path, required=True, metavar="DIR", help="where a run lives")
    train.add_argument(
        "--set",
        dest="assignments",
        metavar="SECTION.KEY=VALUE",
        action="append",
        default=[],
        help="set any key of the recipe; may be repeated",
    )
    add_rule(train)
    text = "the accuracy of an adapted classifier on labelled public images; free"
    test = actions.add_parser("test", help=text, description=text, allow_abbrev=False)
    test.add_argument("run", type=Path, metavar="RUN_DIR", help="of 'adapt train'")
    test.add_argument("--test", type=Path, required=True, metavar="FILE.npz")
    test.add_argument(
        "--part",
        choices=("train", "test"),
        default="test",
        help="of a file with both parts [test]",
    )
    return train, test
