"""Settings from the environment: names, types, and what is said when one is wrong."""

import base64
import dataclasses

import pytest

from fleetbeat.errors import ConfigurationError
from fleetbeat.model import SecretText
from fleetbeat.settings import OUTSIDE, Lock, Settings, load, nearest, variable

KEY = base64.b64encode(bytes(range(32))).decode()


def test_an_empty_environment_gives_the_defaults() -> None:
    assert load({}) == Settings()


def test_variables_of_others_are_left_alone() -> None:
    assert load({"PATH": "/bin", "FLEETBEATX": "1"} | dict.fromkeys(OUTSIDE, "x")) == Settings()


@pytest.mark.parametrize(
    ("name", "text", "group", "field", "value"),
    [
        ("FLEETBEAT_CATALOG", "/srv/catalog", None, "catalog", "/srv/catalog"),
        ("FLEETBEAT_LOG_LEVEL", "DEBUG", None, "log_level", "DEBUG"),
        ("FLEETBEAT_HISTORY", "50", None, "history", 50),
        ("FLEETBEAT_RESOLVE_TTL", "0.5", None, "resolve_ttl", 0.5),
        ("FLEETBEAT_LOCK_TTL", "20", "lock", "ttl", 20.0),
        ("FLEETBEAT_BEAT_START_RATE", "1e3", "beat", "start_rate", 1000.0),
        ("FLEETBEAT_BUNDLES_MAX_ENTRIES", "7", "bundles", "max_entries", 7),
        ("FLEETBEAT_STEPS_PARALLEL", "4", "steps", "parallel", 4),
        ("FLEETBEAT_EVENTS_IN_CLUSTERS", "false", "events", "in_clusters", False),
    ],
)
def test_a_variable_sets_its_field_and_no_other(
    name: str, text: str, group: str | None, field: str, value: object
) -> None:
    settings = load({name: text})
    found = getattr(getattr(settings, group) if group else settings, field)
    assert found == value
    assert type(found) is type(value)
    default = dataclasses.replace(getattr(Settings(), group), **{field: value}) if group else value
    assert settings == dataclasses.replace(Settings(), **{group or field: default})


def test_two_variables_of_one_group_are_both_kept() -> None:
    assert load({"FLEETBEAT_LOCK_TTL": "20", "FLEETBEAT_LOCK_MARGIN": "3"}).lock == Lock(ttl=20.0, margin=3.0)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("FLEETBEAT_LOCK_TLL", "1", "FLEETBEAT_LOCK_TLL: no such setting. Did you mean FLEETBEAT_LOCK_TTL?"),
        ("FLEETBEAT_REDIS", "redis://x", "FLEETBEAT_REDIS: no such setting. Did you mean FLEETBEAT_REDIS_URL?"),
        ("FLEETBEAT_LOCK_TTL", "15s", "FLEETBEAT_LOCK_TTL must be a number, not '15s'"),
        ("FLEETBEAT_EVENTS_IN_CLUSTERS", "no", "FLEETBEAT_EVENTS_IN_CLUSTERS must be true or false, not 'no'"),
        ("FLEETBEAT_HISTORY", "1.5", "FLEETBEAT_HISTORY must be a number, not '1.5'"),
        ("FLEETBEAT_HISTORY", "", "FLEETBEAT_HISTORY must be a number, not ''"),
        ("FLEETBEAT_LOCK_TTL", "0", "FLEETBEAT_LOCK_TTL must be a positive number"),
        ("FLEETBEAT_LOCK_TTL", "-1", "FLEETBEAT_LOCK_TTL must be a positive number"),
        ("FLEETBEAT_LOCK_TTL", "inf", "FLEETBEAT_LOCK_TTL must be a positive number"),
        ("FLEETBEAT_LOCK_TTL", "nan", "FLEETBEAT_LOCK_TTL must be a positive number"),
    ],
    ids=["misspelt", "short", "unit", "no truth", "fraction", "empty", "zero", "negative", "infinite", "not a number"],
)
def test_a_wrong_variable_is_named(name: str, text: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load({name: text})
    assert str(caught.value).startswith(says)


def test_every_field_has_a_variable() -> None:
    """Each default, written as text, reads back as itself."""
    environ = {}
    for top in dataclasses.fields(Settings):
        value = getattr(Settings(), top.name)
        if dataclasses.is_dataclass(value):
            for leaf in dataclasses.fields(value):
                environ[f"FLEETBEAT_{top.name}_{leaf.name}".upper()] = str(getattr(value, leaf.name))
        elif value is not None:
            text = value.reveal() if isinstance(value, SecretText) else str(value)
            environ[f"FLEETBEAT_{top.name}".upper()] = text
    assert load(environ) == Settings()


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_settings_do_not_show_the_password_or_the_key() -> None:
    """Field case l9."""
    settings = load({"FLEETBEAT_REDIS_URL": "redis://:hunter2@redis:6379/0", "FLEETBEAT_KEY": KEY})
    for text in (repr(settings), str(settings), f"{settings.redis_url} {settings.key}"):
        assert "hunter2" not in text
        assert KEY not in text
    assert settings.redis_url.reveal() == "redis://:hunter2@redis:6379/0"


def test_the_sealing_key_is_32_bytes() -> None:
    assert load({"FLEETBEAT_KEY": KEY}).sealing_key() == bytes(range(32))


def test_a_missing_sealing_key_is_told_how_to_make_one() -> None:
    with pytest.raises(ConfigurationError, match=r"FLEETBEAT_KEY is not set.*fleetbeat key"):
        load({}).sealing_key()


@pytest.mark.parametrize("text", ["", "hunter2", KEY[:-4], KEY + "AAAA", KEY.replace("A", "é", 1), f" {KEY}"])
def test_a_sealing_key_of_another_form_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ConfigurationError, match="base64 of exactly 32 bytes") as caught:
        load({"FLEETBEAT_KEY": text}).sealing_key()
    assert not text.strip() or text not in str(caught.value)


def test_the_key_for_overrides_is_32_bytes_or_none() -> None:
    other = base64.b64encode(bytes(range(1, 33))).decode()
    assert load({"FLEETBEAT_OVERRIDE_KEY": other, "FLEETBEAT_KEY": KEY}).signing_key() == bytes(range(1, 33))
    assert load({"FLEETBEAT_KEY": KEY}).signing_key() is None
    with pytest.raises(ConfigurationError, match="FLEETBEAT_OVERRIDE_KEY must be base64") as caught:
        load({"FLEETBEAT_OVERRIDE_KEY": "hunter2"}).signing_key()
    assert "hunter2" not in str(caught.value)


def test_a_key_that_everybody_has_is_no_right_of_its_own() -> None:
    with pytest.raises(ConfigurationError, match="is the same as FLEETBEAT_KEY"):
        load({"FLEETBEAT_OVERRIDE_KEY": KEY, "FLEETBEAT_KEY": KEY}).signing_key()


# ── helpers ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_variable_a_catalog_names_is_read_at_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROD_TOKEN", "one")
    assert variable("PROD_TOKEN") == "one"
    monkeypatch.delenv("PROD_TOKEN")
    assert variable("PROD_TOKEN") is None


@pytest.mark.parametrize(("word", "hint"), [("ttll", " Did you mean ttl?"), ("zzz", "")])
def test_the_nearest_known_word(word: str, hint: str) -> None:
    assert nearest(word, ["ttl", "margin"]) == hint
