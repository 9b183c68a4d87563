"""Reading the drift ledger of an application. It is written by the script that ends a run (clients/runs.py)."""

from __future__ import annotations

from typing import cast

import orjson

from fleetbeat import keys
from fleetbeat.clients.store import Store, errors
from fleetbeat.decisions.drift import DriftLedger


class Drifts:
    """Raises only StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self, app: str) -> DriftLedger:
        """An empty one where there is none, or one of another form: that costs a few heals more than otherwise."""
        with errors():
            text = cast("bytes | None", self._store.redis.get(keys.drift(app)))
        try:
            return DriftLedger.from_json(orjson.loads(text)) if text is not None else DriftLedger()
        except (AttributeError, KeyError, TypeError, ValueError):
            return DriftLedger()


def dump(ledger: DriftLedger) -> str:
    return orjson.dumps(ledger.to_json()).decode()
