"""`analyst sample`, `evaluate` and `export`: what is made of a trained generator; no curator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from analyst.cli.command import Task, command
from analyst.cli.options import Command, spread
from analyst.errors import ImageFileError
from analyst.evaluation.choices import Format
from analyst.evaluation.options import EvaluateOptions
from analyst.new_file import check_output

app = typer.Typer()

Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
Unused = Annotated[str | None, typer.Option(hidden=True)]
"""Taken as everywhere else, though sampling asks no curator."""


@command(app, "sample --out-of runs/digits --count 1000 --out synthetic.npz")
def sample(  # noqa: PLR0913 - one parameter an option
    task: Task,
    *,
    out_of: Annotated[Path, typer.Option(metavar="RUN_DIR", help="The run.")],
    count: Annotated[int, typer.Option(min=1, metavar="N", help="How many images.")],
    out: Annotated[Path, typer.Option(metavar="FILE.npz|FILE.png", help="Where to write them.")],
    force: Force = False,
    seed: Annotated[int, typer.Option(metavar="N", help="Of labels and latents.")] = 0,
    weights: Annotated[
        Literal["ema", "generator"], typer.Option(help="Averaged or last weights.")
    ] = "ema",
    curator: Unused = None,  # noqa: ARG001
    credentials: Unused = None,  # noqa: ARG001
) -> None:
    """Images from a run's newest checkpoint; free.

    Raises:
        ImageFileError: If the name is of another format.
    """
    if out.suffix not in {".npz", ".png"}:
        message = f"cannot write {out}"
        raise ImageFileError(message, "Give a name that ends in .npz or .png.")
    from analyst.evaluation.image_file import save_images
    from analyst.evaluation.sample import sample_run
    from analyst.training.grid import save_grid

    check_output(out, force=force)
    data = sample_run(out_of, count, seed=seed, weights=weights)
    if out.suffix == ".npz":
        save_images(out, data, force=force)
    else:
        order = data.labels.argsort(kind="stable")
        columns = -(-count // len(set(data.labels.tolist())))
        save_grid(out, data.images[order], columns, force=force)
    _say_wrote(task, count, out)


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
def evaluate(task: Task, options: EvaluateOptions) -> None:
    """Train on synthetic images, test on public ones."""
    from analyst.evaluation.command import run_evaluate

    run_evaluate(options, task.screen)


@command(app, "export synthetic.npz --format folder --out synthetic")
def export(
    task: Task,
    *,
    synthetic: Annotated[Path, typer.Argument(metavar="SYNTHETIC.npz", help="What to export.")],
    form: Annotated[Format, typer.Option("--format", help="What other programs read.")],
    out: Annotated[Path, typer.Option(metavar="PATH", help="File or directory.")],
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace an existing .npz file; a directory must be new or empty.",
        ),
    ] = False,
) -> None:
    """A synthetic set as NPZ, image folder or IDX."""
    from analyst.evaluation.command import run_export

    _say_wrote(task, run_export(synthetic, form, out, force=force), out)


def _say_wrote(task: Task, count: int, out: Path) -> None:
    task.screen.say(f"wrote {count:,} images to {out}")
    task.screen.answer({"num_images": count, "out": str(out)})
