"""`dataset check` and `dataset add`, as data for argparse."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

SOURCES = """\
SOURCE is a folder with a subfolder of image files (PNG, JPEG, BMP, TIFF, WebP, GIF; HEIC with the
extra heif) for each class, a folder of image files with --labels FILE, an .npz file, two IDX files
IMAGES,LABELS (also .gz), a folder with MNIST's file names, sklearn:digits or
sklearn:digits-private.
"""
_CHECK_HELP = f"""\
Decode everything once and report what is there: for you alone, and nothing is written.

Files that would need a conversion that is not typed in are refused by name, with the option that
would take them. Exit code 0: 'dataset add' would take all of it; 1: something is refused.

{SOURCES}"""
_ADD_HELP = f"""\
Add a data set: its images and its budget, for ever.

Everything about the data that analysts may know is typed in here and never read off the images:
under add-or-remove even the number of images is private. With --adjacency add-or-remove-one-group
the guarantee is for all images of one person, sizes count groups, --max-records-per-group is
needed, and groups: --groups-key, or a column 'group' in the --labels table.

{SOURCES}"""

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - its only name


def add_source_commands(actions: Commands) -> None:
    """Add `dataset check` and `dataset add`.

    Args:
        actions: Of `dataset`.
    """
    check = _command(actions, "check", "look at a source before adding it", _CHECK_HELP)
    check.add_argument("source", metavar="SOURCE")
    check.add_argument("--classes", help="names in order; by default the source's, 2 before 10")
    check.add_argument("--image-shape", metavar="CxHxW", help="compare with it, such as 1x28x28")
    add_reading(check)
    add = _command(actions, "add", "add a data set with its budget", _ADD_HELP)
    add.add_argument("name", metavar="NAME")
    add.add_argument("source", metavar="SOURCE")
    add.add_argument("--dir", type=Path, required=True, help="the curator's folder")
    _declarations(add)
    add.add_argument(
        "--dry-run",
        action="store_true",
        help="check all that is checked, and write nothing",
    )
    add_reading(add).add_argument(
        "--max-level", type=int, default=255, help="level of a white pixel (%(default)s)"
    )


def _command(actions: Commands, name: str, text: str, words: str) -> argparse.ArgumentParser:
    command = actions.add_parser(
        name,
        help=text,
        description=words,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--json", action="store_true", help="print the answer as JSON")
    command.add_argument("--quiet", action="store_true", help="print nothing but problems")
    command.set_defaults(command=f"dataset {name}")
    return command


def _declarations(add: argparse.ArgumentParser) -> None:
    needed = add.add_argument_group("budget and neighbouring relation (no defaults)")
    needed.add_argument("--epsilon", type=float, required=True, help="cap over all analysts")
    needed.add_argument("--delta", type=float, required=True, help="below 1 / number of people")
    needed.add_argument(
        "--adjacency",
        required=True,
        choices=["add-or-remove-one-record", "add-or-remove-one-group"],
        help="what two neighbouring data sets differ by; a group is all records of one person",
    )
    needed.add_argument(
        "--favour",
        metavar="RECIPE.toml",
        help="weigh the orders of the accounting, for ever, as suits this recipe best; by default "
        "as suits Gaussian releases (sampled steps with little noise gain much)",
    )
    add.add_argument(
        "--max-shared",
        type=rate,
        default=0.5,
        metavar="PART",
        help="refuse it if more than this part of its images, or of those of a smaller data set, "
        "has a budget already (%(default)s); the very same images are refused in any case",
    )
    facts = add.add_argument_group("public facts (no defaults)")
    facts.add_argument(
        "--classes",
        required=True,
        help="names by label, such as 0,1,2 or cat,dog; image folders: of the subfolders or labels",
    )
    facts.add_argument("--image-shape", required=True, metavar="CxHxW", help="such as 1x28x28")
    facts.add_argument("--nominal-size", type=int, required=True, help="published size, in units")
    facts.add_argument("--max-size", type=int, required=True, help="upper bound of the size")
    facts.add_argument(
        "--max-records-per-group",
        type=int,
        metavar="K",
        help="of each group the first K records are kept; needed with one-group, where sizes "
        "and Q count groups and the capacity counts records",
    )
    facts.add_argument(
        "--sampling-rate",
        type=rate,
        required=True,
        metavar="Q",
        help="largest probability of a unit in one step, such as 50/60000 or 0.001",
    )
    facts.add_argument(
        "--capacity",
        type=int,
        required=True,
        help="rows that a private batch is padded to; about q n + 8 sqrt(q n)",
    )


def add_reading(command: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add how a source is read.

    Args:
        command: Gets the options.

    Returns:
        The last group, about arrays.
    """
    folder = command.add_argument_group(
        "reading a folder of images (whatever is left out or changed is reported)"
    )
    folder.add_argument(
        "--labels", type=Path, metavar="FILE", help="table path,label[,group]: .csv or .parquet"
    )
    _choice(folder, "--convert", ["none", "grey", "rgb"], "colours to grey levels or RGB")
    _choice(
        folder,
        "--resize",
        ["none", "fit", "crop"],
        "to --image-shape: the whole picture with black bars, or its middle",
    )
    _choice(folder, "--alpha", ["refuse", "white", "black"], "the colour behind transparency")
    _choice(folder, "--exif", ["refuse", "rotate"], "turn as the camera's tag says")
    _choice(folder, "--sixteen-bit", ["refuse", "scale"], "16-bit grey: 65535 becomes 255")
    _choice(folder, "--frames", ["refuse", "first"], "of animations and of several pages")
    _choice(folder, "--other-files", ["refuse", "skip"], "files that are not named as images")
    arrays = command.add_argument_group("reading an .npz file")
    arrays.add_argument("--images-key", help="name of the image array")
    arrays.add_argument("--labels-key", help="name of the label array")
    arrays.add_argument(
        "--groups-key", help="name of the array of each image's group (one-group only)"
    )
    return arrays


def _choice(group: argparse._ArgumentGroup, option: str, choices: Sequence[str], text: str) -> None:
    group.add_argument(option, choices=choices, default=choices[0], help=f"{text} (%(default)s)")


def rate(text: str) -> float:
    """Read a probability, also as a fraction.

    Args:
        text: As it was typed.

    Raises:
        argparse.ArgumentTypeError: If it is not a number.
    """
    try:
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError):
        msg = f"'{text}' is not a number or a fraction such as 50/60000"
        raise argparse.ArgumentTypeError(msg) from None
