"""What holds for every command of both programs: an example, `--json`, `--quiet`, a clean help."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from analyst.cli import ExitCode as AnalystCode
from analyst.cli import main as analyst
from curator.cli import ExitCode as CuratorCode
from curator.cli import main as curator
from tests.commands import LEAVES, options, typed

ROOT = Path(__file__).parents[3]
MAINS = {"analyst": analyst, "curator": curator}


@pytest.mark.parametrize("words", LEAVES)
def test_every_command_has_examples_that_it_understands(words: str) -> None:
    command = LEAVES[words]
    assert command.epilog.startswith("Example:\n")
    lines = command.epilog.removeprefix("Example:").replace("\\\n", " ").strip().splitlines()
    assert lines
    for line in lines:
        assert typed(line.split(" > ")[0]).command is command, line


@pytest.mark.parametrize("words", LEAVES)
def test_every_command_can_print_json_and_be_quiet(words: str) -> None:
    assert {"--json", "--quiet", "--debug"} <= set(options(LEAVES[words]))


@pytest.mark.parametrize("words", LEAVES)
def test_every_option_says_what_it_is_for(words: str) -> None:
    assert not [one.name for one in LEAVES[words].params if not one.help and not one.hidden]


@pytest.mark.parametrize("words", LEAVES)
def test_every_help_is_whole_and_fits_a_terminal(
    words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    program, *argv = words.split()
    assert MAINS[program]([*argv, "--help"]) == 0
    out, err = capsys.readouterr()
    assert "Args:" not in out
    assert "Raises:" not in out
    assert not err
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize("program", MAINS)
def test_the_version_is_printed(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert MAINS[program](["--version"]) == 0
    assert capsys.readouterr().out == f"{program} of weir-dp {metadata.version('weir-dp')}\n"


@pytest.mark.parametrize("program", MAINS)
def test_help_and_mistakes_need_no_terminal_and_no_stream(program: str) -> None:
    code = f"import sys; from {program}.cli import main; sys.exit(main(sys.argv[1:]))"
    for redirect, argv, expected in (
        (">&-", "--help", 0), ("2>&-", "nothing", 2), (">&- 2>&-", "budget --help", 0),
        ("| head -1", "--help", 0),
    ):  # fmt: skip
        line = f'"{sys.executable}" -c "{code}" {argv} {redirect}; exit ${{PIPESTATUS[0]}}'
        environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "NO_COLOR": "1"}
        done = subprocess.run(
            ["bash", "-c", line],
            check=False, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == expected, (line, done.stderr)
        assert "Traceback" not in done.stderr
        assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize("program", ["analyst", "curator"])
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_what_the_shell_reads(
    program: str, shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert MAINS[program](["completion", shell]) == 0
    printed = capsys.readouterr().out
    assert program in printed
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=printed, check=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("analyst bud", "budget"),
        ("analyst plan --ov", "--over"),
        ("analyst plan --over noi", "noise"),
        ("curator dataset pol", "policy"),
        ("curator plan --over noi", "noise"),
    ],
)
def test_a_shell_is_told_what_may_follow(line: str, expected: str) -> None:
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


@pytest.mark.parametrize("codes", [AnalystCode, CuratorCode])
def test_every_exit_code_is_told_apart(codes: type[AnalystCode | CuratorCode]) -> None:
    source = Path(sys.modules[codes.__module__].__file__ or "").read_text()
    for code in codes:
        (line,) = (one for one in source.splitlines() if one.startswith(f"    {code.name} = "))
        assert line.startswith(f"    {code.name} = {code.value}  # "), line


def test_both_programs_read_options_alike() -> None:
    ours, theirs = ((ROOT / one / "cli" / "options.py").read_text() for one in MAINS)
    assert ours == theirs


def test_whoever_reads_may_go_away() -> None:
    line = f"{sys.executable} -m analyst.cli recipes dp-merf-mnist | true"
    done = subprocess.run(
        ["bash", "-c", line], check=False, cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert "Traceback" not in done.stderr
