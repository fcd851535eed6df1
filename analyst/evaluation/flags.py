"""The options of `analyst evaluate` and `analyst export`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from analyst.evaluation.choices import SUITE_CLASSIFIERS, Format, Suite


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    """Add the options of `analyst evaluate`."""
    parser.add_argument("synthetic", type=Path, metavar="SYNTHETIC.npz")
    parser.add_argument(
        "--test", type=Path, required=True, metavar="TEST.npz", help="public real images"
    )
    parser.add_argument(
        "--public",
        type=Path,
        metavar="FILE.npz",
        help="other public real images: LeNet features are learned on them, copies of them found",
    )
    parser.add_argument(
        "--classifier", choices=(*SUITE_CLASSIFIERS, "all"), default="all", help="which one [all]"
    )
    parser.add_argument(
        "--suite",
        choices=get_args(Suite),
        default="papers",
        help="what 'all' means: the papers' three classifiers, or GS-WGAN's thirteen [papers]",
    )
    parser.add_argument(
        "--inception-weights",
        type=Path,
        metavar="FILE.pt",
        help="InceptionV3 as TorchScript, for FID and inception score",
    )
    parser.add_argument("--seed", type=int, default=0, help="of classifiers that draw [0]")
    parser.add_argument("--device", default="cpu", help="torch device of the networks [cpu]")
    report = parser.add_argument_group("report")
    report.add_argument("--out", type=Path, metavar="DIR", help="write HTML, PNG and JSON here")
    add_force(report, "replace a report in --out")
    report.add_argument("--name", help="heading of the report [name of the file]")
    report.add_argument(
        "--run",
        type=Path,
        metavar="RUN_DIR|CERTIFICATE.json",
        help="show its certificate, and training curves if it is the folder of a run",
    )
    report.add_argument(
        "--compare",
        type=Path,
        nargs="+",
        default=[],
        metavar="EVALUATION.json",
        help="other evaluations, made with --run, for the privacy and utility curve",
    )


def add_export(parser: argparse.ArgumentParser) -> None:
    """Add the options of `analyst export`."""
    parser.add_argument("synthetic", type=Path, metavar="SYNTHETIC.npz")
    parser.add_argument(
        "--format", choices=get_args(Format), required=True, help="what other programs read"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="PATH", help="file or directory")
    add_force(parser, "replace an existing .npz file; a directory must be new or empty")


def add_force(parser: argparse._ActionsContainer, text: str) -> None:
    """Add the option that lets a command replace what exists."""
    parser.add_argument("--force", action="store_true", help=text)
