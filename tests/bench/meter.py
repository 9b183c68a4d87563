"""What a benchmark reads off the machine: processor time, memory, API requests, Redis commands, others at work."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fleetbeat.local.cluster import Cluster

_HERTZ = os.sysconf("SC_CLK_TCK")
_METRIC = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')

#: verb, resource (with "/status" and the like), "dry" or ""
Request = tuple[str, str, str]


def machine() -> str:
    """One line that says where figures were taken."""
    model = next(
        (line.split(":")[1] for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), ""
    )
    name = model.strip() or platform.machine()
    return f"{os.cpu_count()} × {name}, Python {platform.python_version()}, Linux {platform.release()}"


def busy() -> float:
    """Seconds of processor time all cores together have spent since boot, on anything."""
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    idle = fields[3] + fields[4]
    return (sum(fields[:8]) - idle) / _HERTZ  # guest time is in user time already


_patience = 60.0  # seconds a benchmark may wait for a quiet machine, all its waits together


def quiet(limit: float = 0.1) -> float:
    """Wait until the machine uses less than ``limit`` cores over two seconds; returns what it used last.

    Once the benchmark's patience is used up it goes on all the same: the caller prints the figure.
    """
    global _patience
    while True:
        before = busy()
        time.sleep(2.0)
        used = (busy() - before) / 2.0
        _patience -= 2.0
        if used < limit or _patience <= 0:
            return used


def cpu(pid: int) -> float:
    """User and system seconds of one process, 0 when it is gone."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _HERTZ
    return 0.0


def pss(pid: int) -> float:
    """MiB of memory, shared pages divided by their users."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


class Usage:
    """Processor seconds of named processes, and of the rest of the machine, from ``begin`` to ``end``."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = dict(pids)
        self._before = {name: cpu(pid) for name, pid in self._pids.items()}
        self._busy = busy()
        self._began = time.monotonic()

    def end(self) -> dict[str, float]:
        """Name → seconds, with "others": cores (not seconds) that none of the named processes used."""
        spent = {name: cpu(pid) - self._before[name] for name, pid in self._pids.items()}
        took = time.monotonic() - self._began
        spent["others"] = max(0.0, busy() - self._busy - sum(spent.values())) / took
        return spent


@contextlib.contextmanager
def peak_memory(pids: Sequence[int], every: float = 1.0) -> Iterator[list[float]]:
    """A list whose one element is the largest sum of the processes' PSS seen so far, MiB."""
    peak = [sum(map(pss, pids))]
    stop = threading.Event()

    def sample() -> None:
        while not stop.wait(every):
            peak[0] = max(peak[0], sum(map(pss, pids)))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


def requests(cluster: Cluster) -> Counter[Request]:
    """Requests an API server has answered, watches that still run left out."""
    status, text = cluster.request("GET", "/metrics")
    assert status == 200, text
    found: Counter[Request] = Counter()
    for line in text.splitlines():
        match = _METRIC.match(line)
        if match:
            label = dict(_LABEL.findall(match[1]))
            resource = "/".join(filter(None, (label["resource"], label["subresource"])))
            found[label["verb"], resource, "dry" if label["dry_run"] else ""] += int(float(match[2]))
    return found
