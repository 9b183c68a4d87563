"""Step 1: the bundle at the digest this run is about, verified, into the store."""

from __future__ import annotations

from fleetbeat.model import Revision
from workers.target import target
from workers.task import Next, Work


def pull(work: Work) -> Next:
    record, shared = work.record, work.parts
    application = target(shared, work.turn.app).application
    pulled = shared.source.pull(application.source, Revision(record["digest"], record.get("tag", "")))
    revision = pulled.revision
    return Next(
        "render",
        {
            "layer": shared.blobs.put(pulled.layer),
            "source": revision.source,
            "revision": revision.revision,
            "revision_created": revision.created,
        },
    )
