"""What holds for every command of both programs: an example, `--json`, `--quiet`, a clean help."""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from analyst.cli import ExitCode as AnalystCode
from curator import cli_parser as curator_parser
from curator.cli import ExitCode as CuratorCode
from curator.cli_commands import command
from curator.cli_examples import EXAMPLES as CURATOR_EXAMPLES
from tests.commands import LEAVES as COMMANDS
from tests.commands import options, typed

ROOT = Path(__file__).parents[3]
PARSERS = {"curator": curator_parser.build_parser()}


def _leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not groups:
        yield parser
    for group in groups:
        for one in group.choices.values():
            yield from _leaves(one)


LEAVES = [leaf for parser in PARSERS.values() for leaf in _leaves(parser)]


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.prog)
def test_every_command_has_an_example_that_it_understands(leaf: argparse.ArgumentParser) -> None:
    text = leaf.epilog or ""
    assert text.startswith("example:")
    assert "example:" in leaf.format_help()
    commands = text.removeprefix("example:").replace("\\\n", " ").strip().splitlines()
    for line in commands:
        program, *argv = shlex.split(line.split(" > ")[0])
        arguments = PARSERS[program].parse_args(argv)
        assert line.strip().startswith(leaf.prog)
        assert arguments is not None


def test_no_example_is_of_a_command_that_is_gone() -> None:
    assert {leaf.prog for leaf in LEAVES} == set(CURATOR_EXAMPLES)


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.prog)
def test_every_command_can_print_json_and_be_quiet(leaf: argparse.ArgumentParser) -> None:
    assert {"--json", "--quiet"} <= set(leaf._option_string_actions)


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.prog)
def test_every_option_says_what_it_is_for(leaf: argparse.ArgumentParser) -> None:
    told = [a for a in leaf._actions if a.option_strings and a.help != argparse.SUPPRESS]
    assert not [a.option_strings[-1] for a in told if not a.help and not a.metavar]


def test_every_command_of_the_curator_is_carried_out_by_something() -> None:
    named = [leaf.get_default("command") for leaf in _leaves(PARSERS["curator"])]
    assert len(named) == len(set(named)) == len(CURATOR_EXAMPLES)
    for name in named:
        assert callable(command(name))


@pytest.mark.parametrize("program", ["analyst", "curator"])
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_what_the_shell_reads(program: str, shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"{program}.cli", "completion", shell],
        check=True, cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert program in done.stdout
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=done.stdout, check=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("program", "line", "expected"),
    [
        ("curator", "curator dataset pol", "policy"),
        ("curator", "curator plan --over noi", "noise"),
    ],
)
def test_a_shell_is_told_what_may_follow(
    program: str, line: str, expected: str, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    environment = {
        "_ARGCOMPLETE": "1", "_ARGCOMPLETE_STDOUT_FILENAME": str(told), "COMP_LINE": line,
        "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n", "PATH": "/usr/bin:/bin",
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
    }  # fmt: skip
    subprocess.run(
        [sys.executable, "-m", f"{program}.cli"],
        check=True, cwd=ROOT, env=environment, capture_output=True, timeout=60,
    )  # fmt: skip
    assert expected in told.read_text().split()


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_is_whole(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = COMMANDS[words]
    assert command.epilog.startswith("Example:\n")
    lines = command.epilog.removeprefix("Example:").replace("\\\n", " ").strip().splitlines()
    assert lines
    for line in lines:
        assert typed(line.split(" > ")[0]).command is not None
        assert line.strip().startswith(words) or words == "analyst recipes list"
    assert {"--json", "--quiet", "--debug"} <= set(options(command))
    assert not [one.name for one in command.params if not one.help and not one.hidden]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("analyst bud", "budget"),
        ("analyst plan --ov", "--over"),
        ("analyst plan --over noi", "noise"),
    ],
)
def test_a_shell_is_told_what_may_follow_by_typer(line: str, expected: str) -> None:
    program = line.split()[0]
    environment = {
        f"_{program.upper()}_COMPLETE": "complete_bash", "PATH": "/usr/bin:/bin",
        "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", f"{program}.cli"],
        check=True, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert expected in done.stdout.split()


@pytest.mark.parametrize(
    ("page", "codes"), [("analyst.md", AnalystCode), ("curator.md", CuratorCode)]
)
def test_every_exit_code_is_told_apart(page: str, codes: type[AnalystCode | CuratorCode]) -> None:
    source = Path(sys.modules[codes.__module__].__file__ or "").read_text()
    for code in codes:
        (line,) = (one for one in source.splitlines() if one.startswith(f"    {code.name} = "))
        assert line.startswith(f"    {code.name} = {code.value}  # "), line


def test_whoever_reads_may_go_away() -> None:
    line = f"{sys.executable} -m analyst.cli recipes dp-merf-mnist | true"
    done = subprocess.run(
        ["bash", "-c", line], check=False, cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert "Traceback" not in done.stderr
