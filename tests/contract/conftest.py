"""What contract tests have for themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetbeat.local.cluster import Cluster


@pytest.fixture(scope="session")
def cluster(local_binary: Path) -> Iterator[Cluster]:
    """An API server nobody else talks to: here every request is counted, and the session's fleets never rest."""
    with Cluster(name="test") as running:
        yield running
