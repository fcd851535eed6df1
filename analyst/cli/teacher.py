"""`analyst teacher` and `refine`: a linear classifier that private records teach, and its use."""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote
from typing import Literal

import typer

from analyst.cli.access import Access
from analyst.cli.adapt import say_accuracy
from analyst.cli.command import Task, command
from analyst.cli.exit_code import ExitCode
from analyst.cli.options import Group, argument, flag, option
from analyst.cli.recipe_options import Assignments
from analyst.cli.train import Start
from analyst.new_file import check_output

app = typer.Typer()
_group = typer.Typer(
    name="teacher",
    cls=Group,
    help="Teach a linear classifier on public features, by gradients of private records.",
)


@command(
    _group,
    "teacher train --curator localhost:50051 --credentials alice.credentials.json \\\n"
    "      --recipe linear-teacher-mnist --source synthetic.npz --out runs/teacher",
)
def train(
    task: Task,
    *,
    start: Start,
    source: Path | None = option(
        "Labelled images to learn the network on: synthetic or public.", "FILE.npz"
    ),
    access: Access,
    assignments: Assignments,
) -> ExitCode:
    """Learn a network on images that are not private, then a map on it by a curator's gradients.

    Raises:
        RecipeError: If a resumed run is given another recipe.
    """
    from analyst.errors import RecipeError
    from analyst.recipes.assignments import read_assignments
    from analyst.teacher.recipe import TEACHERS
    from analyst.teacher.session import TeacherOptions, resume_teacher, start_teacher
    from analyst.training.federation.folder import check_one_run
    from analyst.training.loop import Outcome
    from analyst.training.progress import Progress
    from analyst.training.stop import stop_on_signals

    overrides = read_assignments(assignments or [])
    if start.resume and (overrides or source is not None):
        message = "a resumed run keeps its recipe, and has learned its source"
        raise RecipeError(message, "Leave --set and --source out; or start a new run.")
    again = f"teacher train --resume --out {quote(str(start.out))} {access.words()}"
    progress = Progress(sys.stderr, quiet=task.screen.quiet)
    with task.training(start.out, resume=start.resume, again=again):
        check_one_run(start.out)
        recipe = None if start.recipe is None else TEACHERS.load(start.recipe, overrides)
        with (
            task.connect(access.one()) as barrier,
            stop_on_signals(quiet=task.screen.quiet) as stop,
        ):
            options = TeacherOptions(out=start.out, source=source, progress=progress, stop=stop)
            if recipe is None:
                outcome = resume_teacher(barrier, options)
            else:
                outcome = start_teacher(barrier, recipe, options)
    completed = outcome is Outcome.COMPLETED
    how = "finished" if completed else "stopped; add --resume to go on"
    progress.say(f"{how}: the classifier is in {start.out}")
    task.screen.answer({"outcome": outcome.value, "out": str(start.out)})
    return ExitCode.OK if completed else ExitCode.INTERRUPTED


@command(_group, "teacher test runs/teacher --test public-test.npz", name="test", reads=True)
def measure(
    task: Task,
    *,
    run: Path = argument("RUN_DIR", "Of 'teacher train'."),
    test_file: Path = option("Labelled public images.", "FILE.npz", "--test", needed=True),
    part: Literal["train", "test"] = option("Of a file with both parts.", default="test"),
) -> None:
    """The accuracy of a teacher on labelled public images; free.

    Raises:
        CheckpointError: If it has no map.
    """
    from analyst.teacher.session import load_teacher

    teacher = load_teacher(run)
    teacher.check_map()
    say_accuracy(task, (teacher.model, teacher.shape), test_file, part)


@command(app, "refine synthetic.npz --teacher runs/teacher --out refined.npz")
def refine(  # noqa: PLR0913 - one parameter an option
    task: Task,
    *,
    synthetic: Path = argument("SYNTHETIC.npz", "From 'sample'."),
    teacher: Path = option("Of 'teacher train'.", "RUN_DIR", needed=True),
    how: Literal["label", "drop"] = option(
        "Where the teacher disagrees: take its label, or drop the image.", default="label"
    ),
    sure: float = option(
        "Drop images of whose class it is less sure.", "SHARE", min=0.0, max=1.0, default=0.0
    ),
    out: Path = option("Where to write them.", "FILE.npz", needed=True),
    force: bool = flag("--force", "Replace an existing file."),
) -> None:
    """Synthetic images as a teacher sees them; free."""
    from analyst.evaluation.image_file import load_images, save_images
    from analyst.teacher.refine import refine as refined_by
    from analyst.teacher.session import load_teacher

    check_output(out, force=force)
    data = load_images(synthetic)
    refined = refined_by(data, load_teacher(teacher), how=how, least_share=sure)
    save_images(out, refined.images, force=force)
    count = len(refined.images.labels)
    task.screen.say(
        f"wrote {count:,} images to {out}: the teacher disagrees with {refined.num_disagreed:,} "
        f"of {len(data.labels):,} labels, and {refined.num_dropped:,} images are left out"
    )
    task.screen.answer(
        {
            "num_images": count,
            "num_disagreed": refined.num_disagreed,
            "num_dropped": refined.num_dropped,
            "out": str(out),
        }
    )


app.add_typer(_group)
