"""W4: twelve kinds drift in five ways, beside 100 applications × 5 objects. How long until each is as it was?

    python tests/bench/bench_w4.py [--every 1.0] [--first 60]

Edited, deleted, a label removed, an entry more in a list of the bundle's, replaced by another manager: each happens to
an object of its own (tests/support/twelve.py says what it is for each kind), in random order, so that nothing may be
healed more than once. Healing is by `fleetbeat watch`, since the interval of the applications is an hour. The clock
begins when the API server has answered the drift, and ends when this driver, which asks every 2 ms, sees the object as
it was. Ends with an error where history tells of more heals of an object than one, or of fewer; the goals are for a
machine that does nothing else, and whether they are met is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import workload
import yaml
from meter import Usage, machine, quiet, requests
from rig import Rig

from fleetbeat.clients.oci_push import push
from fleetbeat.model import ObjectId

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from people import Hands
from twelve import WAYS, Object, content

APPS = int(os.environ.get("APPS", "100"))
WORKERS = int(os.environ.get("WORKERS", "2"))
WORDS = ("edited", "deleted", "label-removed", "one-more", "replaced")
P50, P95 = 0.2, 0.5  #: seconds, the goals
#: Written by the cluster's own controller when the template changes, and ours to leave.
_REVISION = "deployment.kubernetes.io/revision"


def until(condition: Callable[[], bool], timeout: float, what: str) -> None:
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"after {timeout:.0f} s: not yet {what}")
        time.sleep(0.002)


def add(rig: Rig) -> list[tuple[str, Object]]:
    """One application more for each way, before the catalog is written. Returns (way, object) for all of them."""
    found = []
    for word in WORDS:
        app = f"drift-{word}"
        objects = WAYS[word].objects(word, app)
        with tempfile.TemporaryDirectory() as folder:
            text = yaml.safe_dump_all([one.manifest for one in objects])
            (Path(folder) / "app.yaml").write_text(text)
            push(Path(folder), f"{rig.registry.host}/{app}:main", plain_http=True)
        found += [(word, one) for one in objects]
        rig.apps.append(app)
    workload.make_namespaces(rig.cluster, [f"drift-{word}" for word in WORDS])
    return found


class Drift:
    """One object made different, and how long it stayed so."""

    def __init__(self, rig: Rig, word: str, one: Object) -> None:
        self._rig, self._way, self._one = rig, WAYS[word], one
        self.asked = 1  #: requests of this driver
        _, live = self._rig.cluster.request("GET", one.path)
        self._wanted, self._uid = self._seen(live), live["metadata"]["uid"]

    def make(self) -> float:
        """Returns the monotonic time at which it was answered."""
        self.asked += 2 if self._one.name.endswith("-replaced") else 1
        self._way.act(Hands(self._rig.cluster), self._one)
        return time.monotonic()

    def is_back(self) -> bool:
        self.asked += 1
        status, live = self._rig.cluster.request("GET", self._one.path)
        if status != 200 or (live["metadata"]["uid"] == self._uid) is self._way.anew:
            return False
        return self._seen(live) == self._wanted

    @staticmethod
    def _seen(live: dict[str, Any]) -> dict[str, Any]:
        found = content(live)
        kept = {key: value for key, value in (found["metadata"]["annotations"] or {}).items() if key != _REVISION}
        found["metadata"]["annotations"] = kept
        return found


def heals(rig: Rig) -> Counter[str]:
    """How often history tells of a write to each object of the drifting applications, the first sync left out."""
    found: Counter[str] = Counter()
    for word in WORDS:
        for text in rig.runs.history(f"drift-{word}"):
            entry = json.loads(text)
            if entry["trigger"] != "First":
                for result in entry["results"]:
                    if result["outcome"] in ("created", "configured"):
                        found[str(ObjectId.from_key(result["id"]))] += int(entry["count"])
    return found


def told(name: str, value: float, goal: float) -> str:
    return f"{name} {value:.3f} s (goal {goal} s: {'met' if value <= goal else 'missed'})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=float, default=1.0, help="seconds from one drift to the next")
    parser.add_argument("--first", type=int, default=60, help="so many of the drifts")
    given = parser.parse_args()
    print(f"W4: {APPS} applications × {workload.OBJECTS} objects, {WORKERS} workers and a watch, on {machine()}")
    with Rig(APPS, workers=WORKERS, watch=True) as rig:
        drifts = add(rig)
        random.Random(4).shuffle(drifts)
        drifts = drifts[: given.first]
        others = quiet()
        rig.register()
        rig.wait_synced(timeout=200)
        assert rig.watch is not None
        until(lambda: "watching" in rig.watch.log.read_text(), 60, "watching")  # type: ignore[union-attr]
        time.sleep(5)  # first lists of the watch, last look after the syncs
        took: dict[str, list[float]] = {word: [] for word in WORDS}
        own = 0
        usage, asked, began = Usage(rig.everything()), requests(rig.cluster), time.monotonic()
        for number, (word, one) in enumerate(drifts):
            drift = Drift(rig, word, one)
            answered = drift.make()
            until(drift.is_back, 60, f"healed: {one.words}, {word}")
            took[word].append(time.monotonic() - answered)
            own += drift.asked
            threading.Event().wait(max(0.0, began + (number + 1) * given.every - time.monotonic()))
        spent, lasted = usage.end(), time.monotonic() - began
        asked = requests(rig.cluster) - asked
        wanted = Counter({one.words: 1 for _, one in drifts})
        time.sleep(5)  # for whatever would be written once more
        until(lambda: heals(rig).total() >= wanted.total(), 60, "told by history")
        written = heals(rig)
    values = sorted(seconds for times in took.values() for seconds in times)
    for word, times in took.items():
        if times:
            print(f"  {word:<14} p50 {statistics.median(times):.3f} s, worst {max(times):.3f} s, {len(times)} times")
    p95 = values[min(len(values) - 1, int(len(values) * 0.95))]
    goals = f"{told('p50', statistics.median(values), P50)}, {told('p95', p95, P95)}"
    print(f"  all {len(values)}: {goals}, max {values[-1]:.3f} s")
    mine = sum(spent[name] for name in spent if name.startswith(("worker", "beat", "redis", "watch")))
    total = sum(count for (verb, _, _), count in asked.items() if verb != "WATCH") - own
    print(f"  {mine / len(values) * 1000:.0f} ms of processor for each, watching included, over {lasted:.0f} s")
    print(f"  {total / len(values):.1f} requests for each, the control plane's own included")
    print(f"  others used {spent['others']:.2f} cores meanwhile, {others:.2f} before")
    if written != wanted:
        wrong = {name: written[name] for name in {**written, **wanted} if written[name] != wanted[name]}
        raise SystemExit(f"healed more than once, or never, by history: {wrong}")
    print("  each healed once")


if __name__ == "__main__":
    main()
