"""``fleetbeat doctor``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import click

from fleetbeat.cli import checks
from fleetbeat.cli import checks_outside as outside
from fleetbeat.cli import output as out
from fleetbeat.cli.checks import Check
from fleetbeat.cli.exits import Exit
from fleetbeat.cli.session import Session
from fleetbeat.errors import FleetbeatError
from fleetbeat.model import Cluster, Source


@click.command(
    epilog="""\b
Examples:
  fleetbeat doctor
  fleetbeat doctor -o json | jq '.[] | select(.state == "fail")'
Exit code 1 when a check fails; warnings alone are 0."""
)
@out.output_option
@click.pass_context
def doctor(ctx: click.Context, output: str) -> None:
    """Check everything an installation needs.

    Packages, Redis, key, clocks, beat, workers, the catalog, and every cluster and registry it names. Changes nothing.
    """
    session: Session = ctx.obj
    found = list(examine(session))
    if output != "table":
        out.write([dataclasses.asdict(check) for check in found], output)
    else:
        out.table(["", "CHECK", "RESULT"], [[out.word(c.state), c.name, c.detail] for c in found])
        # several mistakes of one catalog need one line
        todo = dict.fromkeys(f"  {check.name}: {check.todo}" for check in found if check.state != "ok" and check.todo)
        if todo:
            out.say("\nWhat to do")
        for line in todo:
            out.say(line)
    failed = any(check.state == "fail" for check in found)
    ctx.exit(Exit.FAILED if failed else Exit.OK)


def examine(session: Session) -> Iterator[Check]:
    """All checks in order; one that cannot be made is a failed check, never an exception."""
    yield from checks.packages()
    try:
        pulse = session.pulse()
    except FleetbeatError as error:
        todo = "set FLEETBEAT_REDIS_URL and FLEETBEAT_KEY as for beat and workers; after `fleetbeat up`: fleetbeat env"
        yield Check("Redis", "fail", str(error), todo)
        return
    yield Check("Redis", "ok", "answers")
    yield from _guarded("Redis", lambda: checks.server(session.server_facts()))
    yield checks.clock("Redis clock", pulse.ahead)
    yield from checks.beats(pulse)
    yield from _guarded("workers", lambda: checks.workers(session))
    yield from _guarded("overrides", lambda: checks.overriding(session))
    yield from _guarded("catalog", lambda: checks.catalog(session))
    yield from _guarded("watch", lambda: checks.watch(session))
    yield from _outside(session)


def _guarded(name: str, ask: Callable[[], Iterable[Check]]) -> list[Check]:
    try:
        return list(ask())
    except FleetbeatError as error:
        return [Check(name, "fail", str(error))]


def _outside(session: Session) -> Iterator[Check]:
    """Clusters and sources of the catalog in force, each once, several at a time: one may take its whole time-out."""
    clusters: dict[str, Cluster] = {}
    spaces: dict[str, set[str]] = {}
    sources: dict[tuple[str, ...], Source] = {}
    try:
        for name in session.catalogs.names():
            application, cluster = session.application(name)
            source = application.source
            clusters[cluster.name] = cluster
            spaces.setdefault(cluster.name, set()).update({application.destination.namespace} - {""})
            sources[source.oci, source.tag or "", source.digest or "", source.semver or ""] = source
    except FleetbeatError:
        return  # told by the check of the catalog
    _ = session.source  # imports requests, which two threads must not begin to do at once
    with ThreadPoolExecutor(8) as pool:
        asked = [
            pool.submit(lambda c: list(outside.cluster(session, c, spaces[c.name])), one) for one in clusters.values()
        ]
        asked += [pool.submit(lambda s: list(outside.registry(session, s)), source) for source in sources.values()]
        for answer in asked:
            yield from answer.result()
