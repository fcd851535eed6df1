"""Each function that a theorem is about, made wrong in a copy: Coq must refuse the proof."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from proofs import coq
from proofs.subjects import THEOREMS
from tests.proofs.copies import MUTANTS, ROOT, copy_of_code

pytestmark = [
    pytest.mark.skipif(
        coq.compiler() is None, reason="coqc is not installed: 'apt-get install coq' on Debian"
    ),
    pytest.mark.timeout(1800),  # Coq is slow on a busy machine
]

CASES = [(proof, name) for proof in THEOREMS for name in MUTANTS.get(proof, {})]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which what does not depend on the code is compiled."""
    folder = tmp_path_factory.mktemp("compiled")
    coq.check(ROOT, folder, [one for one in THEOREMS if not coq.depends_on_code(one)])
    return folder


@pytest.mark.parametrize(("proof", "name"), CASES, ids=[name for _, name in CASES])
def test_a_mutant_is_not_proved(proof: str, name: str, compiled: Path, tmp_path: Path) -> None:
    copy = copy_of_code(tmp_path / "code", MUTANTS[proof][name])
    work = tmp_path / "coq"
    work.mkdir()
    for file in compiled.glob("*.vo"):
        if not coq.depends_on_code(file.stem):
            shutil.copy(file, work)
    files = tuple(THEOREMS)[: tuple(THEOREMS).index(proof) + 1]
    needed = [one for one in files if one == proof or coq.requires(proof, one)]
    with pytest.raises(coq.Unproved, match=rf"does not accept ({proof}|Code).v|no translation"):
        coq.check(copy, work, needed)


@pytest.mark.parametrize(
    "line", ["Axiom easy : 1 = 2.", "Lemma easy : 1 = 2. Admitted.", "Lemma easy : 1 = 2. admit."]
)
def test_nothing_may_be_left_unproved(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "sources"
    shutil.copytree(coq.SOURCES, sources)
    with (sources / "Sums.v").open("a") as file:
        file.write(f"\n{line}\n")
    monkeypatch.setattr(coq, "SOURCES", sources)
    work = tmp_path / "work"
    work.mkdir()
    with pytest.raises(coq.Unproved, match="leaves something unproved"):
        coq.check(ROOT, work, ("Sums",))


def test_a_comment_may_say_anything() -> None:
    assert "Axiom" not in coq.without_comments("Lemma (* no Axiom (* at all *) *) one.")
