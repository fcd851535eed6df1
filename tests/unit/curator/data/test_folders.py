"""Folders of images and tables of labels: order, groups, what is counted, what is refused."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from curator.data.errors import SourceError
from curator.data.group_names import natural_key, shown
from curator.data.groups import limit_groups
from curator.data.store import open_store, write_store
from curator.sources.conversion import Conversion
from curator.sources.ingest import ingest_source, survey_source
from curator.sources.options import SourceOptions, no_progress
from curator.sources.preflight import report_lines
from tests.fakes.awkward import encoded, grey

GREY = Conversion(shape=(1, 8, 8))


def write(root: Path, *names: str) -> None:
    """Write images that differ; the level of the first pixel is their number."""
    for number, name in enumerate(names):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        image = grey(number + 50)
        image.putpixel((0, 0), number)
        path.write_bytes(encoded(image))


def numbers(root: Path, scratch: Path, **options: Any) -> tuple[list[int], list[int]]:
    """Return the images' numbers and labels, in the order in which they are taken."""
    chosen = SourceOptions(**{"conversion": GREY, **options})
    images, _ = ingest_source(str(root), chosen, scratch, no_progress)
    return images.levels[:, 0, 0, 0].tolist(), images.labels.tolist()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    write(folder, "10/a10.png", "10/a9.png", "2/b.png", "1/c.png")
    return folder


@pytest.mark.parametrize(
    ("names", "ordered"),
    [
        (["10", "9", "1", "02"], ["1", "02", "9", "10"]),
        (["a10", "a2", "b1", "a"], ["a", "a2", "a10", "b1"]),
        (["z", "1", "A"], ["1", "A", "z"]),
        (["img12b3", "img12a10", "img12a9", "img3"], ["img3", "img12a9", "img12a10", "img12b3"]),
        (["\u00b2", "3", "\u0663"], ["3", "\u00b2", "\u0663"]),  # digits that are no numbers
    ],
)
def test_the_order_is_natural(names: list[str], ordered: list[str]) -> None:
    assert sorted(names, key=natural_key) == ordered


def test_names_are_shown_on_one_line() -> None:
    assert shown("plain 猫.png") == "plain 猫.png"
    assert shown("a\nb\x1b[31m\u202e\udcff") == "a\\nb\\x1b[31m\\u202e\\udcff"


def test_classes_are_numbered_as_declared_and_files_read_in_natural_order(
    root: Path, tmp_path: Path
) -> None:
    taken, labels = numbers(root, tmp_path, classes=("10", "1", "2", "unseen"))
    assert taken == [3, 2, 1, 0]
    assert labels == [1, 2, 0, 0]
    survey = survey_source(str(root), SourceOptions(), no_progress)
    assert survey.classes == ("1", "2", "10")
    assert "classes in order, with their images: 1 1, 2 1, 10 2" in report_lines(survey)


def test_an_image_folder_needs_declarations_to_be_added(root: Path, tmp_path: Path) -> None:
    for options in (SourceOptions(conversion=GREY), SourceOptions(classes=("1",))):
        with pytest.raises(SourceError, match="needs --classes and --image-shape"):
            ingest_source(str(root), options, tmp_path, no_progress)


def test_folders_without_classes_or_images(tmp_path: Path) -> None:
    (tmp_path / "flat").mkdir()
    write(tmp_path / "flat", "a.png")
    with pytest.raises(SourceError, match=r"no class folders .* give --labels FILE"):
        survey_source(str(tmp_path / "flat"), SourceOptions(), no_progress)
    (tmp_path / "bare" / "cat").mkdir(parents=True)
    with pytest.raises(SourceError, match="there are no images"):
        numbers(tmp_path / "bare", tmp_path, classes=("cat",))


def test_a_table_that_was_not_given_is_named(root: Path, tmp_path: Path) -> None:
    (root / "labels.CSV").write_text("path,label\n")
    (root / "1" / "more.parquet").write_bytes(b"")
    refused = dict(survey_source(str(root), SourceOptions(), no_progress).refusals)
    assert set(refused) == {"labels.CSV", "1/more.parquet"}
    for why in refused.values():
        assert "if it names the labels give it as --labels FILE" in why
    skipped = survey_source(str(root), SourceOptions(skip=True), no_progress)
    assert not skipped.refusals
    flat = tmp_path / "flat"
    write(flat, "a.png")
    table = write_csv(flat / "labels.csv", "path,label\na.png,cat\n")
    with pytest.raises(SourceError, match=re.escape(f"--labels {table}")):
        survey_source(str(flat), SourceOptions(), no_progress)


def test_a_row_that_is_refused_names_its_file_all_the_same(root: Path, tmp_path: Path) -> None:
    rows = "1/c.png,1\n10/a9.png,bird\n10/a10.png,\n1/c.png,1\nno\0name,1\n"
    rows += f"{'long' * 100},bird\n,1\n"
    table = write_csv(tmp_path / "labels.csv", f"path,label\n{rows}")
    options = SourceOptions(labels=table, classes=("1", "10"))
    survey = survey_source(str(root), options, no_progress)
    rows_refused = [name.split(",")[0] for name, _ in survey.refusals]
    assert rows_refused == [f"row {number}" for number in range(2, 8)]
    assert survey.left_out == [("2/b.png", "not named in the table")]


def test_a_loop_of_links_beside_a_table_is_left_out(root: Path, tmp_path: Path) -> None:
    (root / "2" / "loop.png").symlink_to("loop.png")
    table = write_csv(tmp_path / "labels.csv", "path,label\n2/b.png,2\n1/c.png,1\n")
    survey = survey_source(str(root), SourceOptions(labels=table), no_progress)
    assert survey.images == 2
    assert ("2/loop.png", "not named in the table") in survey.left_out


TABLE = "label,path,camera,group\n1,1/c.png,x,ann\n10,10/a9.png,y,bob\n10,10/a10.png,x,ann\n"


def write_csv(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8-sig")
    return path


def test_a_table_gives_labels_groups_and_order(root: Path, tmp_path: Path) -> None:
    table = write_csv(tmp_path / "labels.csv", TABLE)
    options = SourceOptions(labels=table, classes=("1", "10"), conversion=GREY)
    images, survey = ingest_source(str(root), options, tmp_path, no_progress)
    assert images.levels[:, 0, 0, 0].tolist() == [3, 1, 0]
    assert images.labels.tolist() == [0, 1, 1]
    assert images.groups is not None
    assert images.groups.tolist() == [0, 1, 0]
    assert survey.left_out == [("2/b.png", "not named in the table")]
    lines = list(report_lines(survey))
    assert "groups: 2; 1 have several images, the largest 2; 1 have several classes" in lines
    assert survey.as_json()["groups"] == {
        "groups": 2,
        "largest": 2,
        "of_several_images": 1,
        "of_several_classes": 1,
        "alike_but_for_case": [],
    }
    kept = limit_groups(images, 1, tmp_path)
    assert kept.levels[:, 0, 0, 0].tolist() == [3, 1]
    write_store(tmp_path / "set", kept)
    assert open_store(tmp_path / "set").levels[np.arange(2)][:, 0].tolist() == [3, 1]


def test_gathering_on_disk_is_gathering_in_memory(root: Path, tmp_path: Path) -> None:
    options = SourceOptions(
        labels=write_csv(tmp_path / "labels.csv", TABLE), classes=("1", "10"), conversion=GREY
    )
    images, _ = ingest_source(str(root), options, tmp_path, no_progress)
    on_disk, in_memory = limit_groups(images, 2, tmp_path), limit_groups(images, 2)
    assert isinstance(on_disk.levels, np.memmap)
    assert np.array_equal(on_disk.levels, in_memory.levels)


def test_a_table_may_lie_in_the_folder(root: Path, tmp_path: Path) -> None:
    write_csv(root / "labels.csv", "path,label\n1/c.png,a\n")
    options = SourceOptions(labels=root / "labels.csv", conversion=GREY)
    survey = survey_source(str(root), options, no_progress)
    assert "labels.csv" not in dict(survey.left_out)
    assert survey.images == 1


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("l.csv", b"path;label\na;b\n", "'path;label'"),
        ("l.csv", b"", "must name the columns path,label"),
        ("l.csv", b"path,label,path\na,b,a\n", "'path,label,path'"),
        ("l.csv", b"path,label\n1/c.png,1,2\n", "row 1 has 3 cells, the header 2"),
        ("l.csv", b'path,label\n"1/c.png,1\n', "not a CSV file"),
        ("l.csv", b"path,label\n\xff\xfe,1\n", "save it as 'CSV UTF-8'"),
        ("l.xlsx", b"PK", r"takes a \.csv or a \.parquet file"),
        ("gone/l.csv", None, "there is no such file"),
    ],
)
def test_tables_that_cannot_be_read(
    root: Path, tmp_path: Path, name: str, content: bytes | None, words: str
) -> None:
    table = tmp_path / name
    if content is not None:
        table.write_bytes(content)
    with pytest.raises(SourceError, match=words) as caught:
        survey_source(str(root), SourceOptions(labels=table), no_progress)
    assert str(table) in str(caught.value)


def test_parquet_without_pyarrow_says_what_to_install(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(SourceError, match=r"pip install 'weir-dp\[parquet\]', or save .* as CSV"):
        survey_source(str(root), SourceOptions(labels=tmp_path / "l.parquet"), no_progress)


@pytest.fixture
def parquet(tmp_path: Path) -> Callable[[dict[str, list[Any]]], Path]:
    pyarrow = pytest.importorskip("pyarrow")
    writer = pytest.importorskip("pyarrow.parquet")

    def save(columns: dict[str, list[Any]]) -> Path:
        path = tmp_path / "labels.parquet"
        writer.write_table(pyarrow.table(columns), path)
        return path

    return save


def test_a_parquet_table_is_a_csv_table(
    root: Path, tmp_path: Path, parquet: Callable[[dict[str, list[Any]]], Path]
) -> None:
    columns: dict[str, list[Any]] = {
        "group": [7, 8, 7],
        "path": ["1/c.png", "10/a9.png", "10/a10.png"],
        "label": [1, 10, 10],
    }
    options = SourceOptions(labels=parquet(columns), classes=("1", "10"), conversion=GREY)
    images, _ = ingest_source(str(root), options, tmp_path, no_progress)
    assert images.levels[:, 0, 0, 0].tolist() == [3, 1, 0]
    assert images.groups is not None
    assert images.groups.tolist() == [0, 1, 0]
    columns["group"][1] = None
    survey = survey_source(str(root), SourceOptions(labels=parquet(columns)), no_progress)
    assert survey.refusals == [
        ("row 2, 10/a9.png", "the group is empty: fill it in, or remove the row")
    ]
    columns["label"] = [1.0, 2.0, 3.0]
    with pytest.raises(SourceError, match="text or integers, not float"):
        survey_source(str(root), SourceOptions(labels=parquet(columns)), no_progress)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(SourceError, match="not a Parquet file"):
        survey_source(str(root), SourceOptions(labels=tmp_path / "bad.parquet"), no_progress)


@pytest.mark.parametrize(
    "options",
    [
        SourceOptions(labels=Path("l.csv")),
        SourceOptions(skip=True),
        SourceOptions(conversion=Conversion(colour="grey")),
    ],
)
def test_options_for_folders_are_refused_elsewhere(options: SourceOptions) -> None:
    with pytest.raises(SourceError, match="not a folder of images"):
        survey_source("sklearn:digits", options, no_progress)


def test_options_for_arrays_are_refused_for_folders(root: Path) -> None:
    for options in (SourceOptions(groups_key="g"), SourceOptions(keys=("a", "b"))):
        with pytest.raises(SourceError, match="from --labels FILE"):
            survey_source(str(root), options, no_progress)


def test_arrays_are_surveyed_too(tmp_path: Path) -> None:
    levels = np.repeat(np.arange(4, dtype=np.uint8), 12).reshape(4, 3, 4)
    levels[3] = levels[0]
    np.savez(tmp_path / "a.npz", images=levels, labels=np.array([0, 1, 5, 5]), who=[3, 3, 3, 9])
    options = SourceOptions(groups_key="who", classes=("cat", "dog"))
    survey = survey_source(str(tmp_path / "a.npz"), options, no_progress)
    told = survey.as_json()
    assert told["images"] == 4
    assert told["classes"] == {"cat": 1, "dog": 1, "5": 2}
    assert told["sizes"] == {"4x3": 4}
    assert told["levels"] == [0, 2]
    assert told["duplicates"] == [{"name": "image 3", "same_as": "image 0"}]
    assert told["duplicates_of_another_class"] == 1
    assert told["groups"] is not None
    shaped = SourceOptions(conversion=GREY)
    refused = survey_source(str(tmp_path / "a.npz"), shaped, no_progress)
    assert "shape (1, 3, 4), declared is (1, 8, 8)" in refused.refusals[0][1]


def test_long_lists_are_cut_and_say_so(tmp_path: Path) -> None:
    for number in range(30):
        path = tmp_path / "photos" / "cat" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    options = SourceOptions(classes=("cat",), conversion=GREY)
    survey = survey_source(str(tmp_path / "photos"), options, no_progress)
    lines = list(report_lines(survey))
    assert "REFUSED: 30" in lines
    assert lines[-1].startswith("  and 10 more")
    with pytest.raises(SourceError, match="and 10 more"):
        numbers(tmp_path / "photos", tmp_path, classes=("cat",))


def test_progress_counts_files(root: Path) -> None:
    seen: list[tuple[int, int]] = []
    survey_source(str(root), SourceOptions(), lambda done, of: seen.append((done, of)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_memory_does_not_grow_with_the_number_of_images(tmp_path: Path) -> None:
    """48 images of 250 kB each would be 12 MB; a few at a time are held."""
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    edge, count = 500, 48
    for number in range(count):
        image = Image.new("L", (edge, edge), number)
        (tmp_path / "photos" / "cat" / f"{number}.png").write_bytes(encoded(image))
    conversion = Conversion(shape=(1, edge, edge))
    options = SourceOptions(classes=("cat",), conversion=conversion)
    tracemalloc.start()
    try:
        images, _ = ingest_source(str(tmp_path / "photos"), options, tmp_path, no_progress)
        write_store(tmp_path / "set", images)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < count * edge**2 / 3
    assert open_store(tmp_path / "set").levels[np.arange(count)][:, 0].tolist() == list(
        range(count)
    )
