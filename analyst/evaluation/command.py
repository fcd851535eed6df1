"""`analyst evaluate` and `analyst export`: from files to printed tables, JSON, report, formats."""

from __future__ import annotations

import argparse

from analyst.device import check_device
from analyst.errors import EvaluationError
from analyst.evaluation.assess import assess
from analyst.evaluation.choices import EXTRA
from analyst.evaluation.classifier import (
    PAPER_CLASSIFIERS,
    SUITE_CLASSIFIERS,
    Classifier,
    evaluate,
)
from analyst.evaluation.export import export_images
from analyst.evaluation.image_file import load_images
from analyst.evaluation.inception import NO_WEIGHTS, Inception
from analyst.evaluation.result import Evaluation, evaluation_json, load_point, save_evaluation
from analyst.evaluation.run_folder import check_made_by, read_run_folder
from analyst.new_file import check_output
from analyst.screen import Screen

NO_PUBLIC = "no nearest-neighbour check: give --public FILE.npz, real images that are public"


def run_evaluate(arguments: argparse.Namespace, screen: Screen) -> None:
    """Evaluate a synthetic set.

    Raises:
        EvaluationError: If a package, a file or a device is missing.
    """
    check_device(arguments.device, EvaluationError)
    if arguments.out is not None:
        _check_report_packages()
        from analyst.evaluation.html_report import report_files

        for name in ("evaluation.json", *report_files(_classifiers(arguments))):
            check_output(arguments.out / name, force=arguments.force)
    synthetic = load_images(arguments.synthetic, part="train")
    test = load_images(arguments.test, part="test")
    public = None if arguments.public is None else load_images(arguments.public, part="train")
    run = None if arguments.run is None else read_run_folder(arguments.run)
    if arguments.run is not None:
        check_made_by(synthetic, arguments.run)
    others = [load_point(path) for path in arguments.compare]
    weights, inception = arguments.inception_weights, None
    if weights is not None:
        inception = Inception(weights, device=arguments.device)
    reports = []
    for name in _classifiers(arguments):
        report = evaluate(synthetic, test, name, seed=arguments.seed, device=arguments.device)
        screen.show(report.table() + "\n")
        reports.append(report)
    assessment, notes = None, []
    if arguments.classifier == "all":
        assessment = assess(synthetic, test, public, inception=inception, device=arguments.device)
        notes = [NO_WEIGHTS] * (inception is None) + [NO_PUBLIC] * (public is None)
        mean = sum(report.accuracy for report in reports) / len(reports)
        summary = f"mean accuracy of {len(reports)} classifiers: {100 * mean:.1f}%"
        screen.show("\n".join([summary, *assessment.lines(), *notes]))
    evaluation = Evaluation(
        name=arguments.name or arguments.synthetic.stem,
        num_synthetic=len(synthetic.labels),
        num_test=len(test.labels),
        num_public=0 if public is None else len(public.labels),
        seed=arguments.seed,
        reports=tuple(reports),
        assessment=assessment,
        privacy=None if run is None else run.privacy,
    )
    screen.answer(evaluation_json(evaluation))
    if arguments.out is None:
        return
    force = arguments.force
    save_evaluation(arguments.out / "evaluation.json", evaluation, force=force)
    from analyst.evaluation.html_report import ReportInputs, write_report  # here: needs the extra

    inputs = ReportInputs(synthetic=synthetic, public=public, run=run, others=others, notes=notes)
    screen.show(f"\nwrote {write_report(arguments.out, evaluation, inputs, force=force)}")


def run_export(arguments: argparse.Namespace) -> int:
    """Write a synthetic set in another format; return the number of images."""
    if arguments.format == "npz":
        check_output(arguments.out, force=arguments.force)  # the others take an empty folder only
    data = load_images(arguments.synthetic, part="train")
    export_images(data, arguments.format, arguments.out, force=arguments.force)
    return len(data.labels)


def _classifiers(arguments: argparse.Namespace) -> tuple[Classifier, ...]:
    if arguments.classifier != "all":
        chosen: Classifier = arguments.classifier
        return (chosen,)
    return SUITE_CLASSIFIERS if arguments.suite == "gs-wgan" else PAPER_CLASSIFIERS


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
