"""Sees from outside when objects carry the wanted label: a process of its own that watches their kinds.

    python observer.py SERVER CA_FILE TOKEN_FILE LABEL=VALUE PATH…

Prints ``ready`` when every watch is open, then a line ``<monotonic seconds> <path> <namespace>/<name>`` for each object
the first time it carries the label. Independent of Fleetbeat: it shares no code and no connection with it.
"""

from __future__ import annotations

import http.client
import json
import ssl
import sys
import threading
import time
from pathlib import Path
from urllib.parse import quote, urlsplit

METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


def watch(server: str, ca: str, token: str, label: str, path: str, opened: threading.Barrier) -> None:
    parts = urlsplit(server)
    context = ssl.create_default_context(cafile=ca)
    connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, context=context)
    headers = {"Authorization": f"Bearer {token}", "Accept": METADATA, "User-Agent": "observer"}
    # Without a resourceVersion the watch begins with what is there, then goes on with what comes.
    connection.request("GET", f"{path}?watch=1&labelSelector={quote(label)}", headers=headers)
    answer = connection.getresponse()
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status} {answer.read()[:300]!r}")
    opened.wait()
    seen: set[str] = set()
    while line := answer.readline():
        now = time.monotonic()
        event = json.loads(line)
        if event["type"] not in ("ADDED", "MODIFIED"):
            continue
        metadata = event["object"]["metadata"]
        name = f"{metadata['namespace']}/{metadata['name']}"
        if name not in seen:
            seen.add(name)
            sys.stdout.write(f"{now:.4f} {path} {name}\n")  # one write: other threads write too


def main() -> None:
    server, ca, token_file, label, *paths = sys.argv[1:]
    token = Path(token_file).read_text().strip()
    opened = threading.Barrier(len(paths) + 1)
    ended = threading.Event()

    def until_it_ends(path: str) -> None:
        try:
            watch(server, ca, token, label, path, opened)
        finally:
            ended.set()  # the API server has gone, and with it what there was to see

    for path in paths:
        threading.Thread(target=until_it_ends, args=(path,), daemon=True).start()
    opened.wait(30)
    print("ready", flush=True)
    ended.wait()


if __name__ == "__main__":
    main()
