"""``fleetbeat explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fleetbeat.cli import output as out
from fleetbeat.cli.audit_rows import row
from fleetbeat.cli.exits import EPILOG
from fleetbeat.cli.explain_view import show
from fleetbeat.cli.session import Session, unknown_cluster
from fleetbeat.errors import ConfigurationError, FleetbeatError, SourceNotFound
from fleetbeat.model import ApiResource, Body, ObjectId

if TYPE_CHECKING:
    from fleetbeat.decisions.attribution import Fields
    from fleetbeat.decisions.ledger import Entry, Write
    from fleetbeat.ports import ClusterPort


@click.command(
    epilog=f"""\b
Examples:
  fleetbeat explain deployment/web -n shop
  fleetbeat explain Cart.shop.example.com/main -n shop --cluster prod
  fleetbeat explain cm/web-config -n shop -o json

{EPILOG}"""
)
@click.argument("what", metavar="KIND/NAME")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the object, if it has one.")
@click.option("-c", "--cluster", help="Name of the cluster in the catalog; not needed when there is one.")
@out.output_option
@click.pass_obj
def explain(session: Session, what: str, namespace: str, cluster: str | None, output: str) -> None:
    """Where an object comes from: application, run, commit, who asked.

    Also how it is doing, what was changed, who has written to the object since, and who owns which field. KIND may be a
    kind, a plural or a short name, with its group after a dot where several groups have it. An object of another tool
    is told with that tool's name. Only names of fields are shown, never values.
    """
    kind, slash, name = what.partition("/")
    if not (kind and slash and name) or "/" in name:
        raise click.UsageError(f"{what!r} is not KIND/NAME, such as deployment/web")
    told = _Question(session, _cluster(session, cluster)).answer(kind, namespace, name)
    if output != "table":
        out.write(told, output)
    else:
        show(told)


def _cluster(session: Session, name: str | None) -> ClusterPort:
    clusters = session.catalogs.clusters()
    if name is None and len(clusters) == 1:
        (name,) = clusters
    if name is None:
        known = ", ".join(sorted(clusters)) or "none: no catalog is in force"
        raise ConfigurationError(f"which cluster? Name it with --cluster: {known}")
    if name not in clusters:
        raise unknown_cluster(name, clusters)
    return session.cluster(clusters[name])


class _Question:
    """One object on one cluster, and everything that can be found out about it."""

    def __init__(self, session: Session, cluster: ClusterPort) -> None:
        self._session = session
        self._cluster = cluster
        self._home = session.settings.namespace

    def answer(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        """Raises SourceNotFound when neither the cluster nor the ledger knows the object."""
        from fleetbeat.decisions.attribution import kind_of

        resource = kind_of(self._cluster.api_set(), kind)
        key = ObjectId(resource.group, resource.kind, namespace if resource.namespaced else "", name)
        live = self._cluster.get(resource, key.namespace, key.name)
        told: dict[str, Any] = {"object": str(key), "cluster": self._cluster.name, "exists": live is not None}
        if live is None:
            return told | self._of_one_that_is_gone(key)
        told |= self._owner(live)
        if not told["application"]:
            return told | self._of_nobodys(resource, key, live, told["owner"])
        told |= self._health(told["application"], live) | self._drift(told["application"], key)
        entries, last = self._last(told["application"], key)
        if last is None:
            return told | {"write": None, "unknown": self._unknown(told["application"])} | self._fields(live, None)
        return told | self._told(entries, last, key) | self._fields(live, last[1], self._same(resource, live, last[1]))

    def _health(self, app: str, live: Body) -> dict[str, Any]:
        """How it is doing now, by its application's rules; nothing where the catalog in force does not have them."""
        from fleetbeat.engine.judging import Judge

        found = self._session.catalogs.application(app)
        if found is None or found[1].name != self._cluster.name:
            return {}
        health = Judge(found[0], self._cluster, self._cluster.api_set()).health(live)
        return {"health": {"status": health.status, "message": health.message}}

    def _drift(self, app: str, key: ObjectId) -> dict[str, Any]:
        """Which of its fields were changed past the bundle, by whom, and how often they were put back."""
        from fleetbeat.decisions.drift import rows_to_json

        ledger = self._session.drifts.read(app)
        if ledger.cluster != self._cluster.name:
            return {"drift": []}
        rows = rows_to_json(ledger, self._session.runs.now())
        return {"drift": [row for row in rows if row["id"] == key.key]}

    def _owner(self, live: Body) -> dict[str, str]:
        from fleetbeat.decisions.attribution import controller_of
        from fleetbeat.decisions.inventory import applyset_id, parent_name
        from fleetbeat.decisions.ownership import Foreign, owner_of
        from fleetbeat.engine.owners import owner_name

        apps = {*self._session.catalogs.names(), *self._session.ledger.apps()}
        owner = owner_of(live, "", {applyset_id(parent_name(app), self._home): app for app in apps})
        if not isinstance(owner, Foreign):
            controller = controller_of(live)
            made = f"nobody: no tool has marked it; controlled by {controller}" if controller else ""
            return {"application": "", "owner": made or "nobody: no tool has marked it"}
        if owner.tool == "Fleetbeat application":
            return {"application": owner.name, "owner": f"Fleetbeat application {owner.name}"}
        if owner.tool == "ApplySet":
            return {"application": "", "owner": f"ApplySet {owner_name(self._cluster, self._home)(owner.name).text}"}
        return {"application": "", "owner": str(owner)}

    def _last(self, app: str, key: ObjectId) -> tuple[tuple[Entry, ...], tuple[Entry, Write] | None]:
        from fleetbeat.decisions.attribution import newest

        entries = self._session.ledger.read(app).entries
        return entries, newest(entries, self._cluster.name, key)

    def _told(self, entries: tuple[Entry, ...], last: tuple[Entry, Write], key: ObjectId) -> dict[str, Any]:
        from fleetbeat.decisions.attribution import doubtful

        told: dict[str, Any] = {"write": row(*last)}
        if later := doubtful(entries, self._cluster.name, key, last[1].at):
            told["unknown"] = (
                f"run {later.execution.run} may have written it too: {later.note or 'its answer was lost'}"
            )
        return told

    def _of_one_that_is_gone(self, key: ObjectId) -> dict[str, Any]:
        if (found := self._writer(key)) is None:
            raise SourceNotFound(f"cluster {self._cluster.name} has no {key}, and no ledger speaks of it")
        app, entries, last = found
        owner = {"application": app, "owner": f"Fleetbeat application {app}"}
        return owner | self._drift(app, key) | self._told(entries, last, key)

    def _of_nobodys(self, resource: ApiResource, key: ObjectId, live: Body, owner: str) -> dict[str, Any]:
        """No application's, and yet one may have written it: a namespace it made, an object it has let go of."""
        found = self._writer(key)
        if found is None:
            return self._fields(live, None)
        app, entries, last = found
        return (
            {"owner": f"{owner}; Fleetbeat has written it for application {app}"}
            | self._told(entries, last, key)
            | self._fields(live, last[1], self._same(resource, live, last[1]))
        )

    def _writer(self, key: ObjectId) -> tuple[str, tuple[Entry, ...], tuple[Entry, Write]] | None:
        """The application that has written an object last, by the ledgers."""
        best = None
        for app in self._session.ledger.apps():
            entries, last = self._last(app, key)
            if last is not None and (best is None or last[1].at > best[2][1].at):
                best = app, entries, last
        return best

    def _unknown(self, app: str) -> str:
        """What is still known of an application whose ledger says nothing of the object."""
        from fleetbeat.clients import applyset

        said = "the ledger has no write to it: it was trimmed or lost, or the object was written by an earlier version"
        try:
            parent = applyset.read(self._cluster, self._home, app)
        except FleetbeatError as error:
            return f"{said}. The application's record in the cluster cannot be read: {error}"
        if parent is None:
            return f"{said}. The cluster has no record of the application"
        return f"{said}. The application's last run here was {parent.run}, for {parent.digest or 'an unknown digest'}"

    def _same(self, resource: ApiResource, live: Body, write: Write) -> bool | None:
        """Is the object as we left it? None when that is not known."""
        from fleetbeat.decisions.attribution import applied_at

        version = applied_at(live)
        if not write.after or not version:
            return None
        if version != resource.version:  # another version may have other fields
            live = (
                self._cluster.get(resource._replace(version=version), write.place.id.namespace, write.place.id.name)
                or {}
            )
        return self._session.ledger.hash(live) == write.after

    def _fields(self, live: Body, write: Write | None, same: bool | None = None) -> dict[str, Any]:
        from fleetbeat.decisions.attribution import fields_to_json, owners, since

        found = owners(live)
        told: dict[str, Any] = {"fields": fields_to_json(found)}
        if write is not None:
            later: tuple[Fields, ...] = () if same else since(found, write.at)
            told |= {"changedSince": None if same is None else not same, "changedBy": fields_to_json(later)}
        return told
