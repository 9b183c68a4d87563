"""A worker that dies, stops or doubles its messages at a chosen instruction; production code knows nothing of it.

``lay`` wraps one function, in a worker process that has not begun yet (nursery.py)::

    {"point": "before advance", "step": "pull", "do": "kill", "nth": 1}

``do``: kill, stop, exit, or twice (messages); hold: this thread alone waits there for as long as the file ``while``
exists, so that a step stands still and its worker is well.

``nth`` (from 1) counts the calls that fit ``app``, ``step`` and ``path``. The deed is done once, with ``always`` at
every further call too.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from waiting import wait_for

#: point → (module, class or "", function, does it act after the call?)
POINTS: dict[str, tuple[str, str, str, bool]] = {
    "before advance": ("fleetbeat.clients.runs", "Runs", "advance", False),
    "after advance": ("fleetbeat.clients.runs", "Runs", "advance", True),
    "before wait": ("fleetbeat.clients.runs", "Runs", "wait", False),
    "after wait": ("fleetbeat.clients.runs", "Runs", "wait", True),
    "before finish": ("fleetbeat.clients.runs", "Runs", "finish", False),
    "after finish": ("fleetbeat.clients.runs", "Runs", "finish", True),
    "after start": ("fleetbeat.clients.runs", "Runs", "start", True),
    "after begin": ("fleetbeat.clients.runs", "Runs", "begin", True),
    "after resume": ("fleetbeat.clients.runs", "Runs", "resume", True),
    "after take": ("fleetbeat.clients.applyset", "", "take", True),
    "before shrink": ("fleetbeat.clients.applyset", "", "shrink", False),
    "after shrink": ("fleetbeat.clients.applyset", "", "shrink", True),
    "before farewell": ("fleetbeat.clients.applyset", "", "remove", False),
    "after farewell": ("fleetbeat.clients.applyset", "", "remove", True),
    "after end": ("fleetbeat.clients.departures", "Departures", "end", True),
    "before record": ("workers.tally", "", "keep", False),
    "in render": ("workers.render", "", "render", False),
    # the last moment before a write that is kept: the guard has been asked, nothing has been sent
    "before send": ("fleetbeat.clients.cluster_transport", "Transport", "_once", False),
    "after send": ("fleetbeat.clients.cluster_transport", "Transport", "_once", True),
    # and the moment before the guard is asked
    "before guard": ("fleetbeat.clients.cluster_transport", "Transport", "send", False),
}


def lay(plan: dict[str, Any]) -> None:
    """Raises KeyError for a point that is not known."""
    if plan["do"] == "twice":
        _double_messages()
    else:
        _lay(plan)


def _lay(plan: dict[str, Any]) -> None:
    module, owner, name, afterwards = POINTS[plan["point"]]
    place: Any = importlib.import_module(module)
    if owner:
        place = getattr(place, owner)
    original = getattr(place, name)
    wanted, left, lock = _filter(plan), [plan.get("nth", 1)], threading.Lock()

    def due(arguments: tuple[Any, ...], options: Mapping[str, Any]) -> bool:
        if not wanted(arguments, options):
            return False
        with lock:
            left[0] -= 1
            return left[0] == 0 or (plan.get("always", False) and left[0] < 0)

    @functools.wraps(original)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        now = due(arguments, options)
        if now and not afterwards:
            _do(plan)
        result = original(*arguments, **options)
        if now and afterwards:
            _do(plan)
        return result

    setattr(place, name, wrapped)


def _filter(plan: dict[str, Any]) -> Callable[[tuple[Any, ...], Mapping[str, Any]], bool]:
    """Does a call fit ``app``, ``step`` and ``path``? Looked for in the arguments, whatever the function is."""
    app, step, path = plan.get("app"), plan.get("step"), plan.get("path")

    def wanted(arguments: tuple[Any, ...], options: Mapping[str, Any]) -> bool:
        if plan["point"] in ("before send", "after send", "before guard"):
            _, _, method, target, *_ = arguments
            return (
                method in ("PATCH", "PUT", "POST", "DELETE")
                and "dryRun=All" not in target  # where it is whole, and where the query is still beside it
                and "dryRun" not in (options.get("query") or {})
                and (path or "") in target
                and "/namespaces/fleetbeat/" not in target
            )
        turns = [a.turn for a in arguments if hasattr(a, "turn")] + [a for a in arguments if hasattr(a, "step")]
        words = [a for a in arguments if isinstance(a, str)]
        steps = [turn.step for turn in turns] or words
        apps = [turn.app for turn in turns] or words
        return (not step or any(step in (one, one.partition(":")[0]) for one in steps)) and (not app or app in apps)

    return wanted


def _do(plan: dict[str, Any]) -> None:
    deed = plan["do"]
    if deed == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif deed == "stop":
        # To this thread: sent to the process it could stop another one first, and this one would go on for a moment.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    elif deed == "exit":
        os._exit(9)
    elif deed == "hold":
        wait_for(lambda: not Path(plan["while"]).exists(), timeout=600, what="to be let go on")
    else:
        raise ValueError(deed)


def _double_messages() -> None:
    """Every task message is sent twice in a row, so that two workers have it at the same time."""
    from kombu.transport.redis import Channel

    original = Channel._put

    def put(self: Any, queue: str, message: Any, **options: Any) -> None:
        original(self, queue, message, **options)
        if queue.startswith("fleetbeat."):
            original(self, queue, message, **options)

    Channel._put = put
