"""Others who want an object otherwise, and write again as soon as it is put back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from people import Hands
from waiting import wait_for

Body = dict[str, Any]


class Rival:
    """``with Rival(content, insist) as rival``: calls ``insist`` whenever ``content`` says no, until the end."""

    def __init__(self, content: Callable[[], bool], insist: Callable[[], object]) -> None:
        self._content, self._insist = content, insist
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._fight, daemon=True)
        self.writes = 0

    def _fight(self) -> None:
        try:
            while not self._over.is_set():
                if not self._content():
                    self._insist()
                    self.writes += 1
                self._over.wait(0.02)
        except (AssertionError, OSError) as error:
            self._error = error

    def has_its_way(self) -> None:
        """Wait for the rival to have had the last word."""
        wait_for(self._content, what="the rival's write")

    def __enter__(self) -> Rival:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error


def over_a_key(hands: Hands, path: str, key: str, value: str, manager: str) -> Rival:
    """Somebody's controller wants one key of a ConfigMap to have this value."""
    return Rival(
        lambda: hands.get(path).get("data", {}).get(key) == value,
        lambda: hands.merge(path, {"data": {key: value}}, manager),
    )


def over_existence(hands: Hands, path: str) -> Rival:
    """Somebody's controller deletes the object each time."""
    return Rival(lambda: hands.gone(path), lambda: hands.delete(path))
