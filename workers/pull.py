"""Step 1: the bundle at the digest this run is about, verified, into the store."""

from __future__ import annotations

from fleetbeat.model import Revision
from workers import memory
from workers.target import target
from workers.task import Next, Work


def pull(work: Work) -> Next:
    record, shared = work.record, work.parts
    application = target(shared, work.turn.app).application
    layer, revision = memory.pull(shared, application.source, Revision(record["digest"], record.get("tag", "")))
    return Next(
        "render",
        {
            "layer": layer,
            "source": revision.source,
            "revision": revision.revision,
            "revision_created": revision.created,
        },
    )
