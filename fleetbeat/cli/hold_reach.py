"""Is there anything at the moment that a hold is about? A misspelt object would be held, and the one meant healed."""

from __future__ import annotations

import orjson

from fleetbeat.cli.session import Session
from fleetbeat.clients.blobs import Blobs
from fleetbeat.decisions.holds import Hold, Subject, hits, hits_object
from fleetbeat.model import ObjectId


def reaches(session: Session, hold: Hold) -> bool:
    """Does it hit an application of the catalog, or an object that one has applied?"""
    subjects = []
    for name in session.catalogs.names():
        entry = session.catalogs.application(name)
        if entry is not None:
            subjects.append(Subject.of(entry[0]))
    if any(hits(hold, subject) for subject in subjects):
        return True
    if hold.kind not in ("namespace", "object"):
        return False
    there = [subject for subject in subjects if hold.cluster in ("", subject.cluster)]
    return any(hits_object(hold, subject, key) for subject in there for key in _applied(session, subject.app))


def _applied(session: Session, app: str) -> list[ObjectId]:
    """What its last sync left in the cluster, as far as Redis remembers."""
    inventory = session.runs.look(app).state.get("inventory", "")
    text = Blobs(session.store, session.settings.blobs).get(inventory) if inventory else None
    return [ObjectId.from_key(key) for key in orjson.loads(text)] if text is not None else []
