"""The generated reference is what the programs say now."""

from __future__ import annotations

from pathlib import Path

from scripts.reference_docs import PAGES, pages

ROOT = Path(__file__).parents[3]


def test_the_reference_is_up_to_date() -> None:
    for name, text in pages().items():
        assert (PAGES / name).read_text() == text, "run 'python scripts/reference_docs.py'"


def test_every_key_of_the_configuration_says_what_it_means() -> None:
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    plain = {"`host`", "`port`"}  # under [rest], where [grpc] has said it
    silent = {row.split("|")[1].strip() for row in rows if row.split("|")[-2].strip() == ""}
    assert len(rows) > 15
    assert silent <= plain
