"""The Celery application of beat: ``celery -A scheduler.app beat``. Settings come from the environment."""

from __future__ import annotations

from fleetbeat.clients.broker import make_app
from fleetbeat.settings import load

app = make_app(load(), "fleetbeat.scheduler")
app.conf.beat_scheduler = "scheduler.beat:DueScheduler"
