"""What a sync would do to the bundle it would choose: the source's, unless a pin or a veto says another."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from fleetbeat.cli.session import Session
from fleetbeat.errors import Refused
from fleetbeat.model import Application, Cluster, Revision

if TYPE_CHECKING:
    from fleetbeat.cli.preview import Previewed


def at(application: Application, revision: str) -> Application:
    """The same application with its source pinned to a tag or digest."""
    digest = revision.rpartition("@")[2] if "sha256:" in revision else None
    tag = None if digest else revision
    source = dataclasses.replace(application.source, tag=tag, digest=digest, semver=None)
    return dataclasses.replace(application, source=source)


def preview_chosen(
    session: Session, application: Application, cluster: Cluster, *, spec: str = "", asked_for: bool = False
) -> tuple[Previewed, str]:
    """The preview, and why it is not of what the source means now ("" when it is). ``spec``, ``asked_for``: as there.

    Raises Refused where a veto leaves nothing that may be synced, and what a preview raises.
    """
    from fleetbeat.decisions.choice import choose

    pin = session.orders.pins(application.name)
    first = at(application, pin.digest) if pin else application
    found = session.preview(first, cluster, spec=spec, asked_for=asked_for)
    digest = found.promise.digest
    veto = session.orders.vetoed(digest)
    if pin is None and veto is None:
        return found, ""
    in_force = session.runs.look(application.name).state.get("digest", "")
    choice = choose(Revision(digest), pin, veto, Revision(in_force) if in_force else None)
    if choice.revision is None:
        raise Refused(f"{application.name}: {choice.held_back}. To let it in: fleetbeat veto --lift {digest}")
    if choice.revision.digest != digest:
        found = session.preview(at(application, choice.revision.digest), cluster, spec=spec, asked_for=asked_for)
    return found, choice.held_back
