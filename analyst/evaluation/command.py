"""`analyst evaluate` and `analyst export`: from files to printed tables, JSON, report, formats."""

from __future__ import annotations

from pathlib import Path

from analyst.device import check_device
from analyst.errors import EvaluationError
from analyst.evaluation.assess import assess
from analyst.evaluation.choices import EXTRA, Format
from analyst.evaluation.classifier import (
    PAPER_CLASSIFIERS,
    SUITE_CLASSIFIERS,
    Classifier,
    evaluate,
)
from analyst.evaluation.export import export_images
from analyst.evaluation.image_file import load_images
from analyst.evaluation.inception import NO_WEIGHTS, Inception
from analyst.evaluation.options import EvaluateOptions
from analyst.evaluation.result import Evaluation, evaluation_json, load_point, save_evaluation
from analyst.evaluation.run_folder import check_made_by, read_run_folder
from analyst.new_file import check_output
from analyst.screen import Screen

NO_PUBLIC = "no nearest-neighbour check: give --public FILE.npz, real images that are public"


def run_evaluate(options: EvaluateOptions, screen: Screen) -> None:
    """Evaluate a synthetic set.

    Raises:
        EvaluationError: If a package, a file or a device is missing.
    """
    check_device(options.device, EvaluationError)
    if options.out is not None:
        _check_report_packages()
        from analyst.evaluation.html_report import report_files

        for name in ("evaluation.json", *report_files(_classifiers(options))):
            check_output(options.out / name, force=options.force)
    synthetic = load_images(options.synthetic, part="train")
    test = load_images(options.test, part="test")
    public = None if options.public is None else load_images(options.public, part="train")
    run = None if options.run is None else read_run_folder(options.run)
    if options.run is not None:
        check_made_by(synthetic, options.run)
    others = [load_point(path) for path in options.compare or ()]
    weights, inception = options.inception_weights, None
    if weights is not None:
        inception = Inception(weights, device=options.device)
    reports = []
    for name in _classifiers(options):
        report = evaluate(synthetic, test, name, seed=options.seed, device=options.device)
        screen.show(report.table() + "\n")
        reports.append(report)
    assessment, notes = None, []
    if options.classifier == "all":
        assessment = assess(synthetic, test, public, inception=inception, device=options.device)
        notes = [NO_WEIGHTS] * (inception is None) + [NO_PUBLIC] * (public is None)
        mean = sum(report.accuracy for report in reports) / len(reports)
        summary = f"mean accuracy of {len(reports)} classifiers: {100 * mean:.1f}%"
        screen.show("\n".join([summary, *assessment.lines(), *notes]))
    evaluation = Evaluation(
        name=options.name or options.synthetic.stem,
        num_synthetic=len(synthetic.labels),
        num_test=len(test.labels),
        num_public=0 if public is None else len(public.labels),
        seed=options.seed,
        reports=tuple(reports),
        assessment=assessment,
        privacy=None if run is None else run.privacy,
    )
    screen.answer(evaluation_json(evaluation))
    if options.out is None:
        return
    force = options.force
    save_evaluation(options.out / "evaluation.json", evaluation, force=force)
    from analyst.evaluation.html_report import ReportInputs, write_report  # here: needs the extra

    inputs = ReportInputs(synthetic=synthetic, public=public, run=run, others=others, notes=notes)
    screen.show(f"\nwrote {write_report(options.out, evaluation, inputs, force=force)}")


def run_export(synthetic: Path, form: Format, out: Path, *, force: bool) -> int:
    """Write a synthetic set in another format; return the number of images."""
    if form == "npz":
        check_output(out, force=force)  # the others take an empty folder only
    data = load_images(synthetic, part="train")
    export_images(data, form, out, force=force)
    return len(data.labels)


def _classifiers(options: EvaluateOptions) -> tuple[Classifier, ...]:
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
