"""The options of `analyst embedding`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from analyst.evaluation.flags import add_force
from analyst.recipes.flags import add_recipe_flags


def add_embedding(
    parser: argparse.ArgumentParser, add_connection: Callable[[argparse.ArgumentParser], None]
) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """Add the two actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    text = "fetch the one release of a run into a file"
    download = actions.add_parser("download", help=text, description=text, allow_abbrev=False)
    add_connection(download)
    source = download.add_mutually_exclusive_group(required=True)
    source.add_argument("--run", metavar="RUN_ID", help="of a run of yours; costs nothing")
    source.add_argument(
        "--recipe", metavar="NAME|FILE.toml", help="open a run for it; the release is charged"
    )
    download.add_argument("--out", type=Path, required=True, metavar="FILE.safetensors")
    add_force(download, "replace an existing file")
    add_recipe_flags(download)
    text = "train on a fetched release without a curator; free"
    train = actions.add_parser("train", help=text, description=text, allow_abbrev=False)
    train.add_argument("embedding", type=Path, metavar="FILE.safetensors")
    start = train.add_mutually_exclusive_group(required=True)
    start.add_argument("--recipe", metavar="NAME|FILE.toml", help="the one of the release")
    start.add_argument("--resume", action="store_true", help="go on with the run in --out")
    train.add_argument("--out", type=Path, required=True, metavar="DIR", help="where a run lives")
    train.add_argument(
        "--start-from", type=Path, metavar="DIR", help="take the generator's weights of another run"
    )
    add_recipe_flags(train)
    return download, train
