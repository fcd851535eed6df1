"""`analyst evaluate`: from files to printed tables, JSON and a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from analyst.cli.command import Task, command
from analyst.cli.options import Command, argument, flag, option, spread
from analyst.errors import EvaluationError
from analyst.evaluation.choices import (
    EXTRA,
    PAPER_CLASSIFIERS,
    SUITE_CLASSIFIERS,
    Classifier,
    Features,
    Suite,
)
from analyst.new_file import check_output

if TYPE_CHECKING:
    from analyst.evaluation.classifier import Report
    from analyst.evaluation.image_file import LabelledImages
    from analyst.evaluation.inception import Inception
    from analyst.evaluation.membership import PublicCheck

app = typer.Typer()

NO_PUBLIC = "no nearest-neighbour check: give --public FILE.npz, real images that are public"
NOT_PRIVATE = (
    "this says nothing of private images: for those, send the images to the steward, who has "
    "'curator evidence RUN --synthetic FILE.npz'"
)
ONE_CLASS = "the synthetic images have one class, so there is nothing to classify"
_REPORT = "Report"


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluated:
    """What is evaluated, by what, and the report."""

    synthetic: Path = argument("SYNTHETIC.npz", "What to evaluate.")
    test: Path = option("Public real images.", "TEST.npz", needed=True)
    public: Path | None = option(
        "Other public real images: LeNet features are learned on them, copies of them found.",
        "FILE.npz",
    )
    classifier: Literal[Classifier, "all"] = option(
        f"One of {', '.join(SUITE_CLASSIFIERS)}, or all.", "NAME", default="all"
    )
    suite: Suite = option(
        "What 'all' means: the papers' three classifiers, or GS-WGAN's thirteen.", default="papers"
    )
    features: Features = option(
        "Of FID and inception score: a LeNet that learns on public images, or Inception too.",
        default="lenet",
    )
    inception_weights: Path | None = option(
        "InceptionV3 as TorchScript [~/.cache/weir/inception-2015-12-05.pt].", "FILE.pt"
    )
    inception_sha256: str | None = option("Of another such file that you trust.", "HEX")
    privacy: bool = flag(
        "--privacy",
        "Also look for repetitions, and attack by nearness: do --public images, if the generator "
        "learned from them as in a rehearsal, lie nearer than those of --test?",
    )
    seed: int = option("Of classifiers that draw.", "N", default=0)
    device: str = option("Torch device of networks.", "NAME", default="cpu")
    out: Path | None = option("Write HTML, PNG and JSON here.", "DIR", group=_REPORT)
    force: bool = flag("--force", "Replace a report in --out.", group=_REPORT)
    name: str | None = option("Heading of the report [name of the file].", "TEXT", group=_REPORT)
    run: Path | None = option(
        "Show its certificate, and training curves if it is the folder of a run.",
        "RUN_DIR|CERTIFICATE.json",
        group=_REPORT,
    )
    compare: list[Path] | None = option(
        "Other evaluations, made with --run, for the privacy and utility curve.",
        "EVALUATION.json ...",
        group=_REPORT,
    )


class EvaluateCommand(Command):
    """Takes several values after one --compare, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read a command line, with --compare once for each of its values."""
        return super().parse_args(ctx, spread(args, "--compare"))


@command(
    app,
    "evaluate synthetic.npz --test public-test.npz --out report --run runs/digits",
    kind=EvaluateCommand,
)
def evaluate(task: Task, options: Evaluated) -> None:
    """Train on synthetic images, test on public ones.

    Raises:
        EvaluationError: If a package, a file or a device is missing.
    """
    from analyst.device import check_device  # torch
    from analyst.evaluation.assess import assess
    from analyst.evaluation.classifier import evaluate as measure
    from analyst.evaluation.image_file import check_apart, load_images
    from analyst.evaluation.result import Evaluation, evaluation_json, load_point, save_evaluation
    from analyst.evaluation.run_folder import check_made_by, read_run_folder

    check_device(options.device, EvaluationError)
    if options.out is not None:
        _check_report_packages()
        from analyst.evaluation.html_report import report_files

        for name in ("evaluation.json", *report_files(_classifiers(options))):
            check_output(options.out / name, force=options.force)
    synthetic = load_images(options.synthetic, part="train")
    test = load_images(options.test, part="test")
    check_apart(synthetic, test)
    public = None if options.public is None else load_images(options.public, part="train")
    run = None if options.run is None else read_run_folder(options.run)
    if options.run is not None:
        check_made_by(synthetic, options.run)
    others = [load_point(path) for path in options.compare or ()]
    inception = _inception(task, options)
    reports = []
    one_class = options.classifier == "all" and len(set(synthetic.labels.tolist())) < 2
    for name in () if one_class else _classifiers(options):
        report = measure(synthetic, test, name, seed=options.seed, device=options.device)
        task.screen.show(report.table() + "\n")
        reports.append(report)
    assessment, notes = None, list[str]()
    if options.classifier == "all":
        assessment = assess(synthetic, test, public, inception=inception, device=options.device)
        notes = _notes(one_class=one_class, inception=inception is None, public=public is None)
        task.screen.show("\n".join([*_mean(reports), *assessment.lines(), *notes]))
    check = None
    if options.privacy:
        check = _public_check(synthetic, test, public)
        task.screen.show("\n".join([*(figure.line() for figure in check.figures()), NOT_PRIVATE]))
    evaluation = Evaluation(
        name=options.name or options.synthetic.stem,
        num_synthetic=len(synthetic.labels),
        num_test=len(test.labels),
        num_public=0 if public is None else len(public.labels),
        seed=options.seed,
        reports=tuple(reports),
        assessment=assessment,
        public_check=check,
        privacy=None if run is None else run.privacy,
    )
    task.screen.answer(evaluation_json(evaluation))
    if options.out is None:
        return
    force = options.force
    save_evaluation(options.out / "evaluation.json", evaluation, force=force)
    from analyst.evaluation.html_report import ReportInputs, write_report  # here: needs the extra

    inputs = ReportInputs(synthetic=synthetic, public=public, run=run, others=others, notes=notes)
    task.screen.show(f"\nwrote {write_report(options.out, evaluation, inputs, force=force)}")


def _public_check(
    synthetic: LabelledImages, test: LabelledImages, public: LabelledImages | None
) -> PublicCheck:
    """Attack with public images.

    Raises:
        EvaluationError: If there are too few.
    """
    from analyst.evaluation.membership import check_publicly

    rows = [one.images.reshape(len(one.images), -1) for one in (synthetic, test)]
    members = None if public is None else public.images.reshape(len(public.images), -1)
    try:
        return check_publicly(rows[0], rows[1], members)
    except ValueError as problem:
        message = f"--privacy: {problem}"
        raise EvaluationError(message, "Give more of them, or leave --privacy out.") from None


def _inception(task: Task, options: Evaluated) -> Inception | None:
    """Return the Inception network if it was asked for."""
    from analyst.evaluation.inception import SHA256, Inception, weights_file

    if options.features != "inception" and options.inception_weights is None:
        return None
    path, digest = weights_file(options.inception_weights), options.inception_sha256 or SHA256
    inception = Inception(path, sha256=digest, device=options.device)
    task.screen.say(f"Inception weights: {path}")
    return inception


def _notes(*, one_class: bool, inception: bool, public: bool) -> list[str]:
    """Return what is missing of an assessment."""
    from analyst.evaluation.inception import NO_WEIGHTS

    missing = {ONE_CLASS: one_class, NO_WEIGHTS: inception, NO_PUBLIC: public}
    return [words for words, is_missing in missing.items() if is_missing]


def _mean(reports: Sequence[Report]) -> Iterator[str]:
    if reports:
        mean = sum(report.accuracy for report in reports) / len(reports)
        yield f"mean accuracy of {len(reports)} classifiers: {100 * mean:.1f}%"


def _classifiers(options: Evaluated) -> tuple[Classifier, ...]:
    if options.classifier != "all":
        chosen: Classifier = options.classifier
        return (chosen,)
    return SUITE_CLASSIFIERS if options.suite == "gs-wgan" else PAPER_CLASSIFIERS


def _check_report_packages() -> None:
    """Import what a report needs before hours of training, not after.

    Raises:
        EvaluationError: If it is not installed.
    """
    try:
        import jinja2
        import matplotlib as mpl
    except ImportError as error:
        message = f"a report needs {error.name}, which is not installed"
        raise EvaluationError(message, EXTRA) from None
    del jinja2, mpl
