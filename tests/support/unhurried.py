"""Limits for tests of something else: a server or a test that stands still for some seconds is no outage there."""

from __future__ import annotations

from fleetbeat.settings import Http

#: seconds; the connect time-out is the one of a TLS handshake too, and in production a few seconds
UNHURRIED = Http(connect=60.0, read=60.0, total=300.0)
