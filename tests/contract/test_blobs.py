"""Blobs on a real server: round trip, sealing, expiry, and everything that may be wrong with what is stored."""

from __future__ import annotations

import dataclasses
import hashlib
import os

import pytest

from fleetbeat import keys
from fleetbeat.clients.blobs import Blobs
from fleetbeat.clients.store import Store
from fleetbeat.errors import BundleTooLarge, StoreUnavailable
from fleetbeat.settings import Blobs as Limits

KEY = bytes(range(32))
PLAIN = b'{"kind":"Secret","data":{"password":"hunter2-marker"}}' * 200


@pytest.fixture
def store(redis_url: str) -> Store:
    return Store(redis_url, KEY)


@pytest.fixture
def blobs(store: Store) -> Blobs:
    return Blobs(store, Limits())


def raw(store: Store, digest: str) -> bytes:
    stored = store.redis.get(keys.blob(digest))
    assert isinstance(stored, bytes)
    return stored


def test_what_is_put_comes_back_under_its_digest(blobs: Blobs, store: Store) -> None:
    digest = blobs.put(PLAIN)
    assert digest == store.fingerprint(PLAIN)
    assert hashlib.sha256(PLAIN).hexdigest() not in digest  # or a weak Secret could be guessed from it
    assert blobs.get(digest) == PLAIN


def test_empty_content_is_content(blobs: Blobs) -> None:
    assert blobs.get(blobs.put(b"")) == b""


def test_a_missing_blob_is_none(blobs: Blobs) -> None:
    assert blobs.get("0" * 64) is None


def test_stored_bytes_are_compressed_and_show_nothing(blobs: Blobs, store: Store) -> None:
    stored = raw(store, blobs.put(PLAIN))
    assert b"hunter2" not in stored
    assert len(stored) < len(PLAIN) / 10


def test_two_sealings_of_one_content_differ(store: Store) -> None:
    assert store.seal(PLAIN, "x") != store.seal(PLAIN, "x")


@pytest.mark.parametrize("use", ["get", "put"])
def test_use_renews_the_expiry(blobs: Blobs, store: Store, use: str) -> None:
    digest = blobs.put(PLAIN)
    key = keys.blob(digest)
    assert store.redis.pttl(key) > 86_000_000
    store.redis.pexpire(key, 600_000)
    if use == "get":
        blobs.get(digest)
    else:
        blobs.put(PLAIN)
    assert store.redis.pttl(key) > 86_000_000


def flip_last_byte(stored: bytes) -> bytes:
    return stored[:-1] + bytes([stored[-1] ^ 1])


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(flip_last_byte, id="altered"),
        pytest.param(lambda stored: stored[:-7], id="cut short"),
        pytest.param(lambda _: b"", id="emptied"),
        pytest.param(lambda _: b"plain text", id="not ours"),
        pytest.param(lambda _: Store("redis://x", os.urandom(32)).seal(b"x", "y"), id="another key"),
    ],
)
def test_a_spoiled_blob_is_missing_and_can_be_put_again(blobs: Blobs, store: Store, spoil) -> None:
    digest = blobs.put(PLAIN)
    store.redis.set(keys.blob(digest), spoil(raw(store, digest)))
    assert blobs.get(digest) is None
    assert not store.redis.exists(keys.blob(digest))
    assert blobs.put(PLAIN) == digest
    assert blobs.get(digest) == PLAIN


def test_a_blob_moved_to_another_key_is_missing(blobs: Blobs, store: Store) -> None:
    first, second = blobs.put(b"first"), blobs.put(b"second")
    store.redis.copy(keys.blob(first), keys.blob(second), replace=True)
    assert blobs.get(second) is None
    assert blobs.get(first) == b"first"


def test_the_limit_counts_bytes_before_compression(store: Store) -> None:
    small = Blobs(store, dataclasses.replace(Limits(), max_size=1000))
    assert small.get(small.put(b"0" * 1000)) == b"0" * 1000
    with pytest.raises(BundleTooLarge, match=r"1,001 bytes .* FLEETBEAT_BLOBS_MAX_SIZE \(1,000\)"):
        small.put(b"0" * 1001)


def test_a_blob_over_the_readers_limit_is_not_inflated(store: Store, blobs: Blobs) -> None:
    digest = blobs.put(b"0" * 5000)
    assert Blobs(store, dataclasses.replace(Limits(), max_size=1000)).get(digest) is None


def test_foreign_errors_stop_here() -> None:
    nobody = Blobs(Store("redis://user:hunter2@127.0.0.1:1/0", KEY), Limits())
    for attempt in (lambda: nobody.get("0" * 64), lambda: nobody.put(b"x")):
        with pytest.raises(StoreUnavailable) as caught:
            attempt()
        assert "hunter2" not in str(caught.value)
