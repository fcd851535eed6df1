"""The REST API: what the budget is, for whoever is known."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated

from fastapi import Depends, FastAPI, Query, Response

from curator.identity.certificates import fingerprint_of
from curator.identity.tokens import TokenTable
from curator.ledger.ledger import Ledger, RunState
from curator.overview.certificate import Signer
from curator.overview.queries import (
    list_datasets,
    open_runs,
    page_of_runs,
    policy_rules,
    report_budget,
    report_share,
    report_spends,
    spent_alone,
)
from curator.overview.summary import Shown
from curator.planning.planner import Planner
from curator.rest.authentication import caller_of, create_door
from curator.rest.dashboard import add_dashboard, add_metrics
from curator.rest.health import add_health
from curator.rest.models import BudgetAnswer, Dataset, Head, Identity, Run
from curator.rest.plan import add_plan
from curator.rest.problems import document_problems
from curator.rest.sessions import Sessions, add_sign_in
from curator.rest.shield import add_shield
from curator.service.caller import Caller
from curator.service.find_run import run_of

_CALLER = Depends(caller_of)
Limit = Annotated[
    int, Query(ge=1, le=1000, description="Runs of a page: 1 to 1000, by default 100.")
]
Cursor = Annotated[
    str | None, Query(description="The `run_id` of the last run of the page before.")
]


def create_app(shown: Shown, planner: Planner, tokens: TokenTable, signer: Signer) -> FastAPI:
    """Build the application.

    Args:
        shown: What is read.
        planner: On the same ledger.
        tokens: Who may ask.
        signer: Signs privacy certificates.

    Returns:
        The application; it reads the ledger and never writes. A plan is asked with POST because
        of its length, and changes nothing either.
    """
    sessions = Sessions(tokens)
    app = FastAPI(
        title="Weir curator",
        summary="What a data set's privacy budget is; read-only.",
        version="1",
        docs_url=None,  # their pages run scripts from elsewhere, beside the dashboard's session
        redoc_url=None,
        dependencies=[Depends(create_door(tokens, sessions))],
    )
    _add_datasets(app, shown)
    add_plan(app, planner)
    _add_runs(app, shown.ledger)
    _add_identity(app, signer)
    add_health(app, shown.is_ready)
    add_dashboard(app, shown, planner, signer)
    add_metrics(app, shown)
    add_sign_in(app, sessions)
    add_shield(app, shown.telemetry)
    document_problems(app)
    return app


def _add_datasets(app: FastAPI, shown: Shown) -> None:
    ledger, datasets = shown.ledger, shown.datasets

    @app.get("/v1/datasets", tags=["datasets"])
    def get_datasets() -> list[Dataset]:
        """Public facts of every data set."""
        return [
            Dataset.of(facts, policy_rules(ledger, facts.name))
            for facts in list_datasets(ledger, datasets)
        ]

    @app.get("/v1/datasets/{name}", tags=["datasets"])
    def get_dataset(name: str) -> Dataset:
        """Public facts of one data set."""
        return Dataset.of(datasets.facts(name), policy_rules(ledger, name))

    @app.get("/v1/datasets/{name}/budget", tags=["datasets"])
    def get_budget(name: str, who: Caller = _CALLER) -> BudgetAnswer:
        """What is spent and left of one data set, over all analysts, and your open runs."""
        statement = report_budget(ledger, datasets, name)
        runs = _answers(ledger, open_runs(ledger, who, name))
        share, spends = report_share(ledger, who, name), report_spends(ledger, who, name)
        return BudgetAnswer.of(statement, runs, share, spends)


def _add_runs(app: FastAPI, ledger: Ledger) -> None:
    @app.get("/v1/runs", tags=["runs"])
    def get_runs(
        response: Response, limit: Limit = 100, cursor: Cursor = None, who: Caller = _CALLER
    ) -> list[Run]:
        """Your runs, or everybody's for the steward and the auditor: the last opened first.

        A page of them; while there may be more, the header `Link` names the next page.
        """
        runs = _answers(ledger, page_of_runs(ledger, who, limit, cursor))
        if len(runs) == limit:
            following = f"/v1/runs?limit={limit}&cursor={runs[-1].run_id}"
            response.headers["Link"] = f'<{following}>; rel="next"'
        return runs

    @app.get("/v1/runs/{run_id}", tags=["runs"])
    def get_run(run_id: str, who: Caller = _CALLER) -> Run:
        """One of your runs."""
        return _answers(ledger, [run_of(ledger, who, run_id)])[0]

    @app.get("/v1/ledger/head", tags=["ledger"])
    def get_head() -> Head:
        """The ledger's last entry, to be kept elsewhere; for the steward and the auditor."""
        sequence, digest = ledger.head()
        return Head(sequence=sequence, digest=digest)


def _answers(ledger: Ledger, runs: Sequence[RunState]) -> list[Run]:
    alone = spent_alone(ledger, runs)
    return [Run.of(run, alone[run.run_id]) for run in runs]


def _add_identity(app: FastAPI, signer: Signer) -> None:
    @app.get("/v1/identity", tags=["identity"])
    def get_identity() -> Identity:
        """The key that signs certificates, to be compared with what the steward tells you."""
        key = signer.public_key()
        return Identity(
            certificate_key=base64.b64encode(key).decode(), fingerprint=fingerprint_of(key)
        )
