"""A look at the catalog beside the ringing: thousands of windows take seconds, in which nobody would be rung."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections.abc import Callable


class Looking:
    """One call in a thread of its own, which does not keep the process from ending."""

    def __init__(self, look: Callable[[], bool]) -> None:
        """``look`` says whether anything had changed."""
        self._look = look
        self._result: concurrent.futures.Future[bool] = concurrent.futures.Future()
        self._began = self._ended = time.monotonic()
        threading.Thread(target=self._run, name="catalog", daemon=True).start()

    def _run(self) -> None:
        try:
            changed = self._look()
        except BaseException as error:  # noqa: BLE001 - raised in the thread that asks
            self._result.set_exception(error)
        else:
            self._ended = time.monotonic()
            self._result.set_result(changed)

    def is_over(self, patience: float) -> bool:
        """Waits up to ``patience`` seconds for it."""
        return bool(concurrent.futures.wait([self._result], timeout=patience).done)

    def result(self) -> tuple[bool, float]:
        """Had anything changed, and how many seconds did it take? Raises what the look has raised."""
        changed = self._result.result()
        return changed, self._ended - self._began
