"""`curator evidence`: papers about one run for the file, with what attacks achieve."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import typer

from curator.cli.command import Dir, NeedsAttention, Task, check_out, command, opened
from curator.cli.options import argument, flag, option

app = typer.Typer()

_PRIVATE = (
    "PRIVATE: computed from the private images, without noise and charged to no budget. Keep it "
    "where the images are; --for-outsiders makes a page without it."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """What the images are compared with."""

    SECTION: ClassVar = "Attacks"

    synthetic: Path | None = option(
        "Images of the run's generator, from 'analyst sample'; the page has their digest.",
        "FILE.npz",
    )
    held_out: Path | None = option(
        "Real images of the same kind that were never in the data set.", "FILE.npz"
    )
    for_outsiders: bool = flag(
        "--for-outsiders",
        "Leave out all that is private: attacks, the steward's decisions and other runs.",
    )

    def __post_init__(self) -> None:
        """Refuse attacks on a page without any.

        Raises:
            ValueError: If there would be some.
        """
        if self.for_outsiders and self.held_out is not None:
            msg = "--held-out is for attacks, which --for-outsiders leaves out: give one of them"
            raise ValueError(msg)


@command(
    app,
    "evidence RUN --dir /srv/weir --synthetic synthetic.npz --held-out held-out.npz \\\n"
    "      --out evidence.html",
    "evidence RUN --dir /srv/weir --for-outsiders --out for-the-journal.html",
)
def evidence(
    task: Task,
    *,
    run: str = argument("RUN", "A closed run, as 'curator ledger show' names it."),
    folder: Dir,
    compared: Compared,
    out: Path = option("Where to write.", "FILE.html", needed=True),
    force: bool = flag("--force", "Replace a file that exists."),
) -> None:
    """Write a signed page about a closed run: promise, ledger, software, proofs, attacks.

    With --synthetic the private images are attacked by nearness: membership inference beside
    --held-out images, and the canaries of 'dataset add --canaries'. What comes out of that is
    private, is for the steward and whoever may see the images, and is charged to no budget. Exit
    code 5: a figure is above chance; 1: canaries prove more than was promised.

    Raises:
        NoEvidence: If it cannot be had, or the promise does not stand.
        NeedsAttention: If a figure is above chance.
    """
    from audit.evidence import Given, gather
    from audit.evidence_attacks import NoEvidence
    from audit.evidence_page import render, signed
    from curator.system.new_file import new_file

    into = opened(folder)
    check_out(into, out, force=force)
    given = Given(
        synthetic=compared.synthetic,
        held_out=compared.held_out,
        for_outsiders=compared.for_outsiders,
    )
    found, key = gather(into, run, given), into.signing_key
    page = signed(render(found, key.public_key()), key)
    with new_file(out, replace=force) as partial:
        partial.write_bytes(page)
    attacks = found.attacks
    answer = {"run_id": run, "out": str(out), "promise": found.promise}
    if attacks is None:
        task.screen.tell(f"wrote {out}, in which nothing is private")
        task.screen.answer(answer | {"attacks": None})
        return
    task.screen.show(*(figure.line() for figure in attacks.figures()), *attacks.notes)
    task.screen.show(*(f"above chance: {words}" for words in attacks.alarms))
    task.screen.tell(_PRIVATE, f"wrote {out}, readable by you only")
    told = asdict(attacks) | {"alarms": attacks.alarms, "note": _PRIVATE}
    task.screen.answer(answer | {"attacks": told})
    if attacks.refutes(found.promise[0]):
        msg = (
            f"the canaries prove more than the promised epsilon of {found.promise[0]:g}: pause the "
            f"data set ('curator dataset pause {found.facts.name}') and report it"
        )
        raise NoEvidence(msg)
    if attacks.alarms:
        msg = (
            f"{len(attacks.alarms)} figures are above chance; a promise of epsilon "
            f"{found.promise[0]:g} may allow that: read {out}"
        )
        raise NeedsAttention(msg)
