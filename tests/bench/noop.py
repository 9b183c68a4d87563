"""A Celery application with Fleetbeat's settings and a task that does nothing: the ceiling of any task here."""

from __future__ import annotations

from fleetbeat import wire
from fleetbeat.clients.broker import make_app
from fleetbeat.settings import load
from workers.events import batch_events

app = make_app(load(), "fleetbeat.bench.noop")
batch_events(app)


@app.task(name=wire.RECONCILE)
def nothing(name: str) -> str:
    return f"nothing to do for {name}"
