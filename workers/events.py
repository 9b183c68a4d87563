"""What Flower sees, sent in batches: Celery's events of tasks, four times a second instead of at each turn of the loop.

A task has three events. Celery publishes what has gathered whenever its event loop comes around, which under load is
once or twice per task and costs a third of what delivering the task costs. It also forgets what other threads add while
that goes on.
"""

from __future__ import annotations

from typing import Any

from celery import Celery, bootsteps
from celery.events import EventDispatcher
from celery.worker.consumer import Events

EVERY = 0.25  #: seconds
LIMIT = 500  #: events that are sent without waiting for it


class BatchingDispatcher(EventDispatcher):
    """Sends the gathered events when ``flush`` is called."""

    # of Celery's class, which its type stubs leave out
    producer: Any
    mutex: Any
    _group_buffer: dict[str, list[Any]]
    _publish: Any

    def __init__(self, *args: Any, **options: Any) -> None:
        # Celery would have each event wake its loop, only to flush there.
        super().__init__(*args, **{**options, "buffer_limit": LIMIT, "on_send_buffered": None})

    def flush(self, errors: bool = True, groups: bool = True) -> None:
        if errors:
            super().flush(errors=True, groups=False)
        if groups and self.producer is not None:
            with self.mutex:
                for group, events in list(self._group_buffer.items()):
                    if gathered := events[:]:
                        self._publish(gathered, self.producer, f"{group}.multi")
                        del events[: len(gathered)]  # others add at the end meanwhile


class Batches(bootsteps.StartStopStep):
    """Flushes on the worker's clock for as long as it has a connection."""

    requires = (Events,)

    def __init__(self, parent: Any, **options: Any) -> None:
        self._timer: Any = None
        super().__init__(parent, **options)

    def start(self, parent: Any) -> None:
        self.stop(parent)
        self._timer = parent.timer.call_repeatedly(EVERY, parent.event_dispatcher.flush)

    def stop(self, parent: Any) -> None:  # noqa: ARG002 - the signature is Celery's
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def shutdown(self, parent: Any) -> None:
        self.stop(parent)
        if parent.event_dispatcher is not None:
            parent.event_dispatcher.flush()


def batch_events(app: Celery) -> None:
    """Make the workers of ``app`` send their events this way."""
    app.events.dispatcher_cls = f"{__name__}:{BatchingDispatcher.__name__}"
    app.steps["consumer"].add(Batches)
