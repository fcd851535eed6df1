"""Every command that the documentation shows is run by a test, or read with a reason why not."""

from __future__ import annotations

import re

import pytest

from tests.commands import PROGRAMS, options, typed
from tests.documented import ROOT, Page, pages
from tests.e2e.test_pages import EXECUTED

TUTORIAL = {"tutorial/first-run.md"}
READ_ONLY = {
    "explanation/accounting.md": "no curator: tests/unit/curator/accounting explains recipes too",
    "how-to/adapt-a-classifier.md": "trains a classifier: tests/e2e/test_adaptation.py does",
    "how-to/answer-a-privacy-officer.md": "an export of its own: tests/unit/cli/test_who_spent.py",
    "how-to/ask-the-doctor.md": "its exit code tells of this machine: tests/unit/curator/doctor",
    "how-to/audit.md": "a long game: tests/unit/audit/test_cli.py plays it as a fake",
    "how-to/evolve-candidates.md": "needs fonts or a model: tests/e2e/test_evolution.py has both",
    "how-to/score-candidates.md": "needs several runs: tests/e2e/test_score.py has them",
    "how-to/several-curators.md": "needs two curators: tests/e2e/test_federation.py has them",
    "how-to/teach-on-synthetic-images.md": "trains two stages: tests/e2e/test_teacher.py does",
    "how-to/train-in-stages.md": "trains three stages: tests/e2e/test_chain.py does",
    "how-to/use-a-public-network.md": "needs a network: tests/e2e/test_download.py draws one",
    "reference/exit-codes.md": "writes into a home directory: tests/unit/cli prints the same",
}
"""Pages whose commands are matched against the commands only, and which test does the rest."""

OTHERS = {
    "apt-get": "installs, as CI does",
    "make": "the Makefile's targets are what CI runs",
    "python3": "makes a virtual environment, as CI does",
    ".venv/bin/pip": "installs, as CI does",
    "pip": "installs, as CI does",
    "docker": "no engine here: deploy/check_images.sh runs them, tests/unit/deploy reads the files",
    "curl": "the same request as in tests/e2e/test_doors.py, by another client",
    "TOKEN=$(python3": "reads the token for curl",
    "kubectl": "no cluster here: tests/unit/deploy checks the manifests as data",
    "openssl": "shows what curator init made: tests/unit/curator/identity reads the same fields",
    "export": "sets what tests/unit/curator/ledger/test_postgres.py sets",
    "deploy/sbom.sh": "needs the images: tests/unit/deploy/test_sbom.py runs its program",
    "git": "a contributor's own repository",
    "python": "a benchmark of a clone: tests/unit/benchmarks and tests/e2e/test_papers.py run them",
    "tar": "copies files",
    "unzip": "copies files",
    "mkdocs": "tests/unit/docs/test_site.py builds the site where the extra is installed",
}
"""Programs that are not ours, by name, with why no test runs them as they are printed."""

PAGES = pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_our_commands_are_understood(page: Page) -> None:
    for line in page.commands:
        if line.split()[0] in PROGRAMS:
            assert typed(re.split(r"\s(?:>|\||&&)\s", line)[0]).command, f"{page.name}: {line}"


def test_every_page_with_commands_of_ours_is_run_or_has_a_reason() -> None:
    ours = {p.name for p in PAGES if any(line.split()[0] in PROGRAMS for line in p.commands)}
    assert ours == set(EXECUTED) | TUTORIAL | set(READ_ONLY)
    assert not (set(EXECUTED) | TUTORIAL) & set(READ_ONLY)
    for reason in READ_ONLY.values():
        (named,) = re.findall(r"tests/[\w/.]+\w", reason)
        assert (ROOT / named).exists()


def test_every_other_program_has_a_reason() -> None:
    words = {line.split()[0] for page in PAGES for line in page.commands}
    assert words - set(PROGRAMS) <= set(OTHERS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_text_exist(page: Page) -> None:
    """The words up to the first option or capital are a command, and its options are options."""
    for text in page.inline:
        program, *words = text.split()
        command = PROGRAMS[program]
        for word in words:
            if not hasattr(command, "commands") or word.startswith("-") or word == "...":
                break
            if command.name == "recipes" and word not in command.commands:
                break  # the name of a recipe
            assert word in command.commands, f"{page.name}: {text}"
            command = command.commands[word]
        if not hasattr(command, "commands"):
            for option in re.findall(r"(?<!\S)--[a-z-]+", text):
                assert option in options(command), f"{page.name}: {text}"


def test_this_test_sees_commands() -> None:
    assert sum(len(page.commands) for page in PAGES) > 80
    assert sum(len(page.inline) for page in PAGES) > 40
