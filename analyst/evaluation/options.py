"""The options of `analyst evaluate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from analyst.evaluation.choices import SUITE_CLASSIFIERS, Classifier, Suite


def _reported(*names: str, help: str, **more: Any) -> Any:  # noqa: A002 - as Typer calls it
    return typer.Option(*names, help=help, rich_help_panel="Report", **more)


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluateOptions:
    """What is evaluated, by what, and the report."""

    synthetic: Annotated[Path, typer.Argument(metavar="SYNTHETIC.npz", help="What to evaluate.")]
    test: Annotated[Path, typer.Option(metavar="TEST.npz", help="Public real images.")]
    public: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npz",
            help="Other public real images: LeNet features are learned on them, copies of them "
            "found.",
        ),
    ] = None
    classifier: Annotated[
        Literal[Classifier, "all"],
        typer.Option(metavar="NAME", help=f"One of {', '.join(SUITE_CLASSIFIERS)}, or all."),
    ] = "all"
    suite: Annotated[
        Suite,
        typer.Option(
            help="What 'all' means: the papers' three classifiers, or GS-WGAN's thirteen."
        ),
    ] = "papers"
    inception_weights: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.pt", help="InceptionV3 as TorchScript, for FID and inception score."
        ),
    ] = None
    seed: Annotated[int, typer.Option(metavar="N", help="Of classifiers that draw.")] = 0
    device: Annotated[str, typer.Option(metavar="NAME", help="Torch device of networks.")] = "cpu"
    out: Annotated[Path | None, _reported(metavar="DIR", help="Write HTML, PNG and JSON here.")] = (
        None
    )
    force: Annotated[bool, _reported("--force", help="Replace a report in --out.")] = False
    name: Annotated[
        str | None, _reported(metavar="TEXT", help="Heading of the report [name of the file].")
    ] = None
    run: Annotated[
        Path | None,
        _reported(
            metavar="RUN_DIR|CERTIFICATE.json",
            help="Show its certificate, and training curves if it is the folder of a run.",
        ),
    ] = None
    compare: Annotated[
        list[Path] | None,
        _reported(
            metavar="EVALUATION.json ...",
            help="Other evaluations, made with --run, for the privacy and utility curve.",
        ),
    ] = None
