"""Step 2: the bundle's files become manifests for the target cluster: read, defaulted, checked against its API set."""

from __future__ import annotations

import orjson

from fleetbeat.decisions.bundles import unpack
from fleetbeat.decisions.manifests import read, resolve
from fleetbeat.engine.plan import manifests_to_json
from workers.target import target
from workers.task import Next, Work, start_over

#: Kept with the run; a bundle with more skipped files than this is told enough.
MAX_WARNINGS = 20


def render(work: Work) -> Next:
    shared, record = work.parts, work.record
    layer = shared.blobs.get(record["layer"])
    if layer is None:
        return start_over()
    limits = shared.settings.bundles
    files = unpack(layer, max_unpacked=limits.max_unpacked, max_entries=limits.max_entries)
    where = target(shared, work.turn.app, run=work.turn.run, digest=record["digest"])
    found = read(files, path=where.application.source.path)
    resolved = resolve(found.documents, apis=where.cluster.api_set(), namespace=where.application.destination.namespace)
    said = [*(f"{place} is not applied: {why}" for place, why in found.skipped), *resolved.warnings]
    return Next(
        "diff",
        {
            "rendered": shared.blobs.put(manifests_to_json(resolved.manifests)),
            "warnings": orjson.dumps(said[:MAX_WARNINGS]).decode(),
        },
    )
