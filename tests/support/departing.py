"""Applications that are deleted, in tests: leaving the catalog, the run that deletes, what is left."""

from __future__ import annotations

from typing import Any

from click.testing import CliRunner
from fleet import Fleet
from waiting import wait_for

from fleetbeat.cli.main import cli
from fleetbeat.cli.session import Session
from fleetbeat.clients.departures import Departures
from fleetbeat.decisions.inventory import parent_name

DELETE = {"deletionPolicy": "Delete"}
Body = dict[str, Any]


def parent(fleet: Fleet, app: str) -> Body | None:
    return fleet.get(f"/api/v1/namespaces/fleetbeat/configmaps/{parent_name(app)}")


def objects(fleet: Fleet, namespace: str) -> list[str]:
    """Names of the ConfigMaps there, without what Kubernetes itself puts into a namespace."""
    listed = fleet.get(f"/api/v1/namespaces/{namespace}/configmaps") or {"items": []}
    return sorted(name for item in listed["items"] if (name := item["metadata"]["name"]) != "kube-root-ca.crt")


def synced(fleet: Fleet, word: str, manifests: list[Body], namespace: str, **sync: Any) -> str:
    """An application with these objects in place, to be deleted when it leaves the catalog."""
    app = fleet.name(word)
    fleet.push(app, manifests)
    fleet.application(app, namespace=namespace, spec=DELETE, **sync)
    fleet.wait_run(app, phase="Succeeded")
    return app


def removed(fleet: Fleet, app: str, *, phase: str = "Succeeded", timeout: float = 120) -> Body:
    """The run that deleted it."""

    def ended() -> Body | None:
        return next((e for e in fleet.history(app) if e["trigger"] == "Removed" and e["phase"] == phase), None)

    try:
        return wait_for(ended, timeout=timeout, what=f"the deletion of {app} {phase}")
    except AssertionError as error:
        look = fleet.runs.look(app)
        raise AssertionError(f"{error}\nrun: {look.run}\nstate: {look.state}\n{fleet.logs()[-6000:]}") from None


def deleting(fleet: Fleet, path: str) -> bool:
    return "deletionTimestamp" in (fleet.get(path) or {}).get("metadata", {})


def departures(fleet: Fleet) -> Departures:
    return Departures(fleet.store)


def command(fleet: Fleet, *arguments: str) -> Any:
    """``fleetbeat …`` of this installation."""
    session = Session()
    session.settings = fleet.settings  # type: ignore[misc]  # else read from the environment at first use
    return CliRunner().invoke(cli, list(arguments), obj=session)
