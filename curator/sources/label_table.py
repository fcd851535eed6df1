"""A table of labels, a row for each image: path,label[,group] in CSV or Parquet, or attributes.

Rows count from 1 below the header. Nothing is inferred: every cell is text as written, and in
Parquet also an integer.
"""

from __future__ import annotations

import csv
import itertools
import os
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from curator.data.errors import SourceError
from curator.data.group_names import GroupNames, is_hidden, natural_key, same_name, shown
from curator.sources.attributes import ENDING, attribute_rows
from curator.sources.conversion import ImageRefused
from curator.sources.listing import TABLE_ENDINGS, Entry, Listing, check_inside
from curator.sources.options import SourceOptions
from curator.system.os_errors import in_words

_NEEDED = ("path", "label")
_GROUP = "group"
_LONGEST_LINE = 1 << 20
_MOST_ROWS = 1 << 24
_ROWS_AT_ONCE = 1 << 12  # a dictionary may make a few bytes many rows
Row = dict[str, str | None]


def list_labelled(root: Path, options: SourceOptions, table: Path) -> Listing:
    """List the images of a folder that a table names.

    Args:
        root: Paths in the table start here.
        options: Declared class names, which say the order, by default the table's labels, 2 before
            10; which attribute is the label; which rows are taken.
        table: A .csv or .parquet file, or a .txt file of attributes.

    Returns:
        Each image with its label, and its group if there is such a column.

    Raises:
        SourceError: If the table cannot be read or has other columns.
    """
    classes = options.classes
    first, last = options.rows or (1, None)
    rows = list(itertools.islice(_rows(table, options.attribute), first - 1, last))
    labels = {same_name(label) for row in rows if (label := row["label"])}
    listing = Listing(classes=tuple(map(same_name, classes or sorted(labels, key=natural_key))))
    seen, groups, refused = dict[Path, int](), GroupNames(), list[Row]()
    for number, row in enumerate(rows, first):
        name = f"row {number}, {shown(row['path'] or '(no path)')}"
        try:
            _check_group(groups, row, number)
            entry = _entry(root, row, listing.classes)
        except ImageRefused as problem:
            listing.refusals.append((name, str(problem)))
            refused.append(row)
            continue
        if entry.path in seen:
            why = f"named in row {seen[entry.path]} already: remove one of the two rows"
            listing.refusals.append((name, why))
            continue
        seen[entry.path] = number
        listing.entries.append(entry)
    listing.alike_groups.extend(groups.alike())
    _leave_out(listing, root, {_real(table), *map(str, seen), *_named(root, refused)})
    return listing


def _check_group(groups: GroupNames, row: Row, number: int) -> None:
    """Check that a row's group, if there are groups, is a name of its own or the same as before.

    Raises:
        ImageRefused: If it is empty, or only looks different.
    """
    if _GROUP in row:
        problem = groups.problem(row[_GROUP] or "", f"row {number}")
        if problem is not None:
            raise ImageRefused(problem)


def _entry(root: Path, row: Row, classes: tuple[str, ...]) -> Entry:
    """Check one row.

    Raises:
        ImageRefused: If a cell is empty, or the file or label is not known.
    """
    path, label = row["path"], row["label"]
    for column, value in row.items():
        if not value:
            msg = f"the {column} is empty: fill it in, or remove the row"
            raise ImageRefused(msg)
    if not path or not label:
        msg = "a row without path and label"
        raise ImageRefused(msg)
    if same_name(label) not in classes:
        msg = f"'{shown(label)}' is not one of --classes {','.join(classes)}: correct the row"
        raise ImageRefused(msg)
    real = check_inside(root, _find(root, path))
    return Entry(name=shown(path), path=real, label=same_name(label), group=row.get(_GROUP))


def _find(root: Path, name: str) -> Path:
    """Return where a named file is, also if the table composes its accents differently."""
    spellings = (unicodedata.normalize(form, name) for form in ("NFC", "NFD"))
    return next((path for one in spellings if (path := root / one).exists()), root / name)


def _named(root: Path, rows: Iterable[Row]) -> Iterator[str]:
    """Yield where the files are that rows name."""
    for row in rows:
        with suppress(OSError, ValueError):  # where it cannot be looked for, it was refused so
            yield _real(_find(root, row["path"] or ""))


def _real(path: Path) -> str:
    return os.path.realpath(path)  # Path.resolve fails at a loop of links


def _leave_out(listing: Listing, root: Path, known: set[str]) -> None:
    """Report the files that are not known: neither the table nor named in it."""
    for folder, folders, files in os.walk(root):
        place = Path(folder)
        hidden = [name for name in (*folders, *files) if is_hidden(name)]
        folders[:] = sorted(set(folders).difference(hidden), key=natural_key)
        for name in sorted(hidden, key=natural_key):
            listing.left_out.append((shown(str((place / name).relative_to(root))), "hidden"))
        for name in sorted(set(files).difference(hidden), key=natural_key):
            path = place / name
            if _real(path) not in known:
                shown_name = shown(str(path.relative_to(root)))
                listing.left_out.append((shown_name, "not named in the table"))


def _rows(table: Path, attribute: str | None) -> Iterator[Row]:
    """Return the rows of a table.

    Raises:
        SourceError: If it cannot be read or has other columns.
    """
    csv_ending, parquet_ending = TABLE_ENDINGS
    if table.suffix.lower() == ENDING:
        return attribute_rows(table, attribute)
    if attribute is not None:
        msg = f"{table}: --attribute is for a .txt file of attributes"
        raise SourceError(msg)
    if table.suffix.lower() == parquet_ending:
        return _parquet_rows(table)
    if table.suffix.lower() == csv_ending:
        return _csv_rows(table)
    msg = f"{table}: --labels takes a .csv or a .parquet file, or a .txt file of attributes"
    raise SourceError(msg)


def _csv_rows(table: Path) -> Iterator[Row]:
    """Return the rows of a CSV file.

    Raises:
        SourceError: If it cannot be read or has other columns, or a row has more or fewer cells.
    """
    try:
        with table.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(_lines(table, stream), strict=True)
            header = next(reader, [])
            columns = _columns(table, header)
            for number, cells in enumerate((cells for cells in reader if cells), 1):
                if len(cells) != len(header):
                    msg = f"{table}: row {number} has {len(cells)} cells, the header {len(header)}"
                    raise SourceError(msg)
                yield {name: cells[header.index(name)] for name in columns}
    except UnicodeDecodeError:
        msg = f"{table}: not text in UTF-8; save it as 'CSV UTF-8'"
        raise SourceError(msg) from None
    except csv.Error as problem:
        msg = f"{table}: not a CSV file ({problem})"
        raise SourceError(msg) from None
    except OSError as problem:
        raise SourceError(in_words(problem, str(table))) from None


def _lines(table: Path, stream: TextIO) -> Iterator[str]:
    """Yield the lines of a table with their ends.

    Raises:
        SourceError: If one is too long to be a row, such as in a file without lines.
    """
    while line := stream.readline(_LONGEST_LINE + 1):
        if len(line) > _LONGEST_LINE:
            msg = f"{table}: a line has more than {_LONGEST_LINE:,} characters, so it is no table"
            raise SourceError(msg)
        yield line


def _parquet_rows(table: Path) -> Iterator[Row]:
    """Return the rows of a Parquet file.

    Raises:
        SourceError: If it cannot be read or has other columns or too many rows, or pyarrow is
            not installed.
    """
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        msg = (
            f"{table}: Parquet needs pyarrow: pip install 'weir-dp[parquet]', "
            "or save the table as CSV"
        )
        raise SourceError(msg) from None
    try:
        with parquet.ParquetFile(table) as file:
            columns = _columns(table, file.schema_arrow.names)
            if file.metadata.num_rows > _MOST_ROWS:
                msg = f"{table}: it says that it has more than {_MOST_ROWS:,} rows: split it"
                raise SourceError(msg)
            for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=columns):
                for row in batch.to_pylist():
                    yield {name: _text(table, row[name]) for name in columns}
    except (OSError, ArrowException):
        msg = f"{table}: cannot be read, or is not a Parquet file"
        raise SourceError(msg) from None


def _text(table: Path, value: object) -> str | None:
    """Return a cell as text.

    Raises:
        SourceError: If it is neither text nor an integer.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    msg = f"{table}: cells must be text or integers, not {type(value).__name__}"
    raise SourceError(msg)


def _columns(table: Path, header: Iterable[str]) -> list[str]:
    """Return the columns that are used.

    Raises:
        SourceError: If one is missing or named twice.
    """
    names = list(header)
    wanted = [*_NEEDED, *([_GROUP] if _GROUP in names else [])]
    if any(names.count(name) != 1 for name in wanted):
        msg = (
            f"{table}: the first row must name the columns path,label (and group, if there are "
            f"any), with commas; it is '{shown(','.join(names))}'"
        )
        raise SourceError(msg)
    return wanted
