"""How a source of images is read, as options."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from curator.cli.command import UsageProblem
from curator.cli.options import argument, option

if TYPE_CHECKING:
    from curator.sources.conversion import Shape
    from curator.sources.options import SourceOptions

Source = Annotated[
    str,
    argument(
        "SOURCE",
        "A folder with a subfolder of image files (PNG, JPEG, BMP, TIFF, WebP, GIF; HEIC with "
        "the extra heif, DICOM with the extra dicom) for each class, a folder of image files with "
        "--labels FILE, an .npz file, two IDX files IMAGES,LABELS (also .gz), a folder with "
        "MNIST's file names, sklearn:digits or sklearn:digits-private.",
    ),
]
_SHAPE_PARTS = 3


def rate(text: str | float) -> float:
    """Read a probability, also as a fraction.

    Raises:
        ValueError: If it is not a number.
    """
    try:
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError, OverflowError):
        msg = f"'{text}' is not a number or a fraction such as 50/60000"
        raise ValueError(msg) from None


_ARRAYS = "Reading an .npz file"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """How a source is read."""

    SECTION: ClassVar = "Reading a folder of images (whatever is left out or changed is reported)"

    labels: Path | None = option(
        "Table path,label[,group]: .csv or .parquet; or of attributes as CelebA's: .txt.", "FILE"
    )
    attribute: str | None = option("The attribute that is the label, yes or no.", "NAME")
    rows: str | None = option("Of the table's rows only these, from 1.", "FIRST-LAST")
    convert: Literal["none", "grey", "rgb"] = option(
        "Colours to grey levels or RGB.", default="none"
    )
    resize: Literal["none", "fit", "crop"] = option(
        "To --image-shape: the whole picture with black bars, or its middle.", default="none"
    )
    alpha: Literal["refuse", "white", "black"] = option(
        "The colour behind transparency.", default="refuse"
    )
    exif: Literal["refuse", "rotate"] = option("Turn as the camera's tag says.", default="refuse")
    sixteen_bit: Literal["refuse", "scale", "keep"] = option(
        "16-bit grey: 65535 becomes 255, or levels are kept up to --max-level.", default="refuse"
    )
    window: str | None = option(
        "Of DICOM and 16-bit grey: the values that become black to white, by public numbers; those "
        "of a header are never read.",
        "CENTRE,WIDTH",
    )
    monochrome1: Literal["refuse", "invert"] = option(
        "DICOM whose least value is white.", default="refuse"
    )
    groups_from: Literal["none", "PatientID"] = option(
        "DICOM: whose an image is; no identifier is kept or shown (one-group only).",
        default="none",
    )
    frames: Literal["refuse", "first"] = option(
        "Of animations and of several pages.", default="refuse"
    )
    other_files: Literal["refuse", "skip"] = option(
        "Files that are not named as images.", default="refuse"
    )
    images_key: str | None = option("Name of the image array.", "NAME", group=_ARRAYS)
    labels_key: str | None = option("Name of the label array.", "NAME", group=_ARRAYS)
    groups_key: str | None = option(
        "Name of the array of each image's group (one-group only).", "NAME", group=_ARRAYS
    )

    def options(
        self, classes: str | None, image_shape: str | None, max_level: int | None
    ) -> SourceOptions:
        """Return how the source is read.

        Args:
            classes: Names with commas between them; the source's if None.
            image_shape: CxHxW; as it is if None.
            max_level: Of white; not compared if None.

        Raises:
            UsageProblem: If two options do not fit each other.
        """
        from curator.sources.conversion import Conversion
        from curator.sources.options import SourceOptions

        keys = None
        if self.images_key or self.labels_key:
            keys = (self.images_key or "images", self.labels_key or "labels")
        try:
            conversion = Conversion(
                shape=None if image_shape is None else shape_of(image_shape),
                colour=self.convert,
                resize=self.resize,
                alpha=self.alpha,
                exif=self.exif,
                sixteen_bit=self.sixteen_bit,
                max_level=max_level,
                window=None if self.window is None else window_of(self.window),
                monochrome1=self.monochrome1,
                frames=self.frames,
            )
        except ValueError as problem:
            raise UsageProblem(str(problem)) from None
        return SourceOptions(
            keys=keys,
            groups_key=self.groups_key,
            labels=self.labels,
            attribute=self.attribute,
            rows=None if self.rows is None else rows_of(self.rows),
            classes=None if classes is None else classes_of(classes),
            conversion=conversion,
            skip=self.other_files == "skip",
            groups_from=self.groups_from,
        )


def shape_of(text: str) -> Shape:
    """Read CHANNELSxHEIGHTxWIDTH.

    Raises:
        UsageProblem: If it is something else.
    """
    try:
        parts = [int(part) for part in text.lower().split("x")]
    except ValueError:
        parts = []
    if len(parts) != _SHAPE_PARTS or min(parts) < 1:
        msg = "--image-shape must be CHANNELSxHEIGHTxWIDTH, such as 1x28x28"
        raise UsageProblem(msg)
    return parts[0], parts[1], parts[2]


def window_of(text: str) -> tuple[float, float]:
    """Read CENTRE,WIDTH.

    Raises:
        UsageProblem: If it is something else.
    """
    centre, _, width = text.partition(",")
    try:
        return float(centre), float(width)
    except ValueError:
        msg = "--window must be CENTRE,WIDTH, such as 40,400"
        raise UsageProblem(msg) from None


def rows_of(text: str) -> tuple[int, int]:
    """Read FIRST-LAST.

    Raises:
        UsageProblem: If it is something else.
    """
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last)):
        msg = "--rows must be FIRST-LAST, counted from 1, such as 1-162770"
        raise UsageProblem(msg)
    return int(first), int(last)


def classes_of(text: str) -> tuple[str, ...]:
    """Read names with commas between them.

    Raises:
        UsageProblem: If they are no text in this locale.
    """
    from curator.data.group_names import is_text
    from curator.validation_errors import UNREAD_LETTERS

    if not is_text(text):
        msg = f"--classes {UNREAD_LETTERS}"
        raise UsageProblem(msg)
    return tuple(part.strip() for part in text.split(","))
