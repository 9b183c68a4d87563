"""``fleetbeat hold``."""

from __future__ import annotations

import re

import click

from fleetbeat.cli import output as out
from fleetbeat.cli.hold_reach import reaches
from fleetbeat.cli.session import Session, unknown_cluster
from fleetbeat.cli.sync import whoami
from fleetbeat.decisions.holds import KINDS, LONGEST, SCOPES, HoldKind, Scope, warning
from fleetbeat.decisions.problems import shown
from fleetbeat.errors import ConfigurationError, FleetbeatError
from fleetbeat.model import ObjectId

_KIND = re.compile(r"[A-Z][A-Za-z0-9]*(\.[a-z0-9.-]+)?")


@click.command(
    epilog="""\b
Examples:
  fleetbeat hold
  fleetbeat hold cluster prod --for 4h --reason "draining nodes"
  fleetbeat hold app shop --for 2h --scope self-heal --reason "looking for the leak"
  fleetbeat hold object deployment/web -n shop --for 30m --reason "scaled down by hand"
  fleetbeat hold label team=web --for 2d --reason "release freeze"
  fleetbeat hold --lift 3fa9c1"""
)
@click.argument("kind", type=click.Choice(KINDS), required=False)
@click.argument("target", required=False)
@click.option("--for", "seconds", type=out.Duration(), help=f"How long: 30m, 2h, at most {LONGEST // 86_400}d.")
@click.option("--reason", default="", help="Why; shown wherever the hold stands.")
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    default="sync",
    show_default=True,
    help="sync: nothing is written. self-heal: what was changed by hand stays. prune: what left the bundle stays.",
)
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the object, if it has one.")
@click.option("-c", "--cluster", default="", help="Of the namespace or object; without it, in every cluster.")
@click.option("--lift", metavar="ID", help="End this hold now.")
@out.output_option
@click.pass_obj
def hold(
    session: Session,
    kind: HoldKind | None,
    target: str | None,
    seconds: float | None,
    reason: str,
    scope: Scope,
    namespace: str,
    cluster: str,
    lift: str | None,
    output: str,
) -> None:
    """Keep Fleetbeat from writing, for a time.

    KIND is app, cluster, namespace, object or label; TARGET its name, for an object KIND/NAME, for a label of
    applications key=value. What is held is compared and shown all the same, and written once when the hold ends or is
    lifted. Without arguments: all holds.
    """
    if lift is not None:
        if kind is not None:
            raise click.UsageError("--lift ends a hold by its id alone")
        _lift(session, lift)
    elif kind is None:
        _show(session, output)
    elif target is None or seconds is None or not reason.strip():
        raise click.UsageError("a hold needs a TARGET, --for and --reason")
    else:
        if cluster and kind not in ("namespace", "object"):
            raise click.UsageError("--cluster goes with a namespace or an object")
        wanted = _target(session, kind, target, namespace, cluster)
        made = session.fleetbeat.hold(
            kind, wanted, seconds=seconds, scope=scope, by=whoami(), reason=reason, cluster=cluster
        )
        if not reaches(session, made):
            out.say(
                f"note: no application is known that {made.about} would be about. It holds from now on what will be; "
                f"was another one meant? fleetbeat hold --lift {made.id}",
                err=True,
            )
        if output != "table":
            out.write(made.for_programs(), output)
            return
        out.say(f"{made.id}: {made.about} is held ({made.scope}) until {out.moment(made.until)}")
        out.say(f"To end it before: fleetbeat hold --lift {made.id}")


def _show(session: Session, output: str) -> None:
    found = session.holds.read()
    if output != "table":
        out.write([one.for_programs() for one in found.holds], output)
        return
    if not found.holds:
        out.say("Nothing is held.")
        return
    rows = [
        [one.id, one.about, one.scope, one.by, out.moment(one.since), out.moment(one.until), one.reason]
        for one in found.holds
    ]
    out.table(["ID", "HELD", "SCOPE", "BY", "SINCE", "UNTIL", "REASON"], rows)
    for line in warning(found.holds, found.now):
        out.say(click.style("warning: ", fg="yellow") + line, err=True)


def _lift(session: Session, hold_id: str) -> None:
    lifted = session.fleetbeat.lift(hold_id)
    if lifted is None:
        raise ConfigurationError(f"no hold has the id {shown(hold_id)}, or it has ended. All: fleetbeat hold")
    out.say(f"{lifted.about} is held no more; what differs is written now, if nothing else is against it")


def _target(session: Session, kind: HoldKind, target: str, namespace: str, cluster: str) -> str:
    """As the hold keeps it. Raises ConfigurationError and CatalogError for what is not there."""
    if kind == "app":
        session.application(target)
        return target
    clusters = session.catalogs.clusters()
    for name in filter(None, (cluster, target if kind == "cluster" else "")):
        if name not in clusters:
            raise unknown_cluster(name, clusters)
    return _object(target, namespace).key if kind == "object" else target


def _object(target: str, namespace: str) -> ObjectId:
    """``deployment/web``, and for other kinds than Kubernetes' own ``Cart.shop.example.com/main``."""
    from fleetbeat.decisions.attribution import kind_of
    from fleetbeat.decisions.builtin_kinds import BUILTIN

    kind, slash, name = target.partition("/")
    if not (kind and slash and name) or "/" in name:
        raise ConfigurationError(f"{shown(target)} is not KIND/NAME, such as deployment/web")
    try:
        known = kind_of(BUILTIN, kind)
        return ObjectId(known.group, known.kind, namespace if known.namespaced else "", name)
    except FleetbeatError:
        if not _KIND.fullmatch(kind):
            raise ConfigurationError(
                f"{shown(kind)} is none of Kubernetes' own kinds. Write another one with its group, as in its "
                "manifests: Cart.shop.example.com/main"
            ) from None
    plain, dot, group = kind.partition(".")
    return ObjectId(group if dot else "*", plain, namespace, name)
