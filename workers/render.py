"""Step 2: the bundle's files become manifests for the target cluster."""

from __future__ import annotations

import orjson

from fleetbeat.engine.plan import manifests_to_json
from fleetbeat.engine.rendering import render as render_bundle
from workers import removal
from workers.departing import is_removal
from workers.target import target
from workers.task import Next, Outcome, Work, start_over

#: Kept with the run; a bundle with more skipped files than this is told enough.
MAX_WARNINGS = 20


def render(work: Work) -> Outcome:
    if is_removal(work.record):
        return removal.render(work)
    shared, record = work.parts, work.record
    layer = shared.blobs.get(record["layer"])
    if layer is None:
        return start_over()
    limits = shared.settings.bundles
    where = target(shared, work.turn.app, run=work.turn.run, fence=work.turn.fence, digest=record["digest"])
    rendered = render_bundle(
        layer, where.application, where.cluster, max_unpacked=limits.max_unpacked, max_entries=limits.max_entries
    )
    return Next(
        "diff",
        {
            "rendered": shared.blobs.put(manifests_to_json(rendered.manifests)),
            "warnings": orjson.dumps(rendered.said[:MAX_WARNINGS]).decode(),
        },
    )
