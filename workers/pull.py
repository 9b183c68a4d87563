"""Step 1: the bundle at the digest this run is about, verified, into the store."""

from __future__ import annotations

from fleetbeat.model import Revision
from workers import memory, removal
from workers.departing import is_removal
from workers.target import target
from workers.task import Next, Outcome, Work


def pull(work: Work) -> Outcome:
    if is_removal(work.record):
        return removal.pull(work)
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
