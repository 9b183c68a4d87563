"""The Celery app of the workers: ``celery -A workers.app worker -P threads -c 8 -E``."""

from __future__ import annotations

from typing import Any

from celery import Task
from celery.signals import worker_init
from celery.worker.control import inspect_command

from fleetbeat import wire
from fleetbeat.clients import cluster_connect
from fleetbeat.clients.broker import make_app
from fleetbeat.decisions.overrides import mark
from fleetbeat.settings import load
from fleetbeat.wire import Doorbell
from workers import apply, diff, pull, reconcile, render, report
from workers.events import batch_events
from workers.parts import parts
from workers.task import carry_out

app = make_app(load(), "fleetbeat.workers")
batch_events(app)


@worker_init.connect
def _open(**_: Any) -> None:
    """Fail at start, not at the first task, when a setting is wrong; take the time of large imports there too."""
    parts()
    cluster_connect.preload()


@inspect_command(name=wire.OVERRIDE_MARK)
def override_mark(_state: Any) -> str:
    """ "" = this worker lets sync windows be overridden by whoever may ask for a sync."""
    return mark(parts().settings.signing_key())


@app.task(name=wire.RECONCILE, bind=True)
def run_reconcile(self: Task[Any, Any], name: str) -> str:
    return reconcile.reconcile(self.app, name)


@app.task(name=wire.PULL, bind=True)
def run_pull(self: Task[Any, Any], name: str, run: str, step: str, fence: int) -> str:
    return carry_out(self, Doorbell(name, run, step, fence), pull.pull)


@app.task(name=wire.RENDER, bind=True)
def run_render(self: Task[Any, Any], name: str, run: str, step: str, fence: int) -> str:
    return carry_out(self, Doorbell(name, run, step, fence), render.render)


@app.task(name=wire.DIFF, bind=True)
def run_diff(self: Task[Any, Any], name: str, run: str, step: str, fence: int) -> str:
    return carry_out(self, Doorbell(name, run, step, fence), diff.diff)


@app.task(name=wire.APPLY, bind=True)
def run_apply(self: Task[Any, Any], name: str, run: str, step: str, fence: int) -> str:
    return carry_out(self, Doorbell(name, run, step, fence), apply.apply)


@app.task(name=wire.REPORT, bind=True)
def run_report(self: Task[Any, Any], name: str, run: str, step: str, fence: int) -> str:
    return carry_out(self, Doorbell(name, run, step, fence), report.report)
