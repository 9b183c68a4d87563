"""The credentials of ``docker login``, helpers included, for pushing. Workers take theirs from the catalog."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from fleetbeat.clients.oci_auth import docker_login
from fleetbeat.decisions import references
from fleetbeat.errors import ConfigurationError
from fleetbeat.model import RegistryAuth
from fleetbeat.settings import variable

_TIMEOUT = 30  # seconds; a helper may ask a key ring, and a person may have to unlock it


def auth_for(reference: str) -> RegistryAuth:
    """What docker's config knows for the reference's registry; anonymous for one it does not know, or a layout.

    Raises ConfigurationError for a malformed reference, config or helper.
    """
    place = references.parse(reference)
    if isinstance(place, references.Layout):
        return RegistryAuth()
    folder = variable("DOCKER_CONFIG")
    config = (Path(folder) if folder else Path.home() / ".docker") / "config.json"
    return docker_login(config, place.registry, _ask_helper)


def _ask_helper(suffix: str, registry: str) -> tuple[str, str] | None:
    """docker's protocol: the registry on stdin of ``docker-credential-<suffix> get``, JSON on stdout."""
    program = f"docker-credential-{suffix}"
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", suffix):
        raise ConfigurationError(f"docker's config names a credential helper that cannot be one: {suffix!r}")
    try:
        done = subprocess.run(
            [program, "get"], input=registry, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except FileNotFoundError:
        raise ConfigurationError(f"docker's config names {program}, which is not on PATH") from None
    except subprocess.TimeoutExpired:
        raise ConfigurationError(f"{program} does not answer within {_TIMEOUT} s") from None
    except OSError as error:
        raise ConfigurationError(f"{program} cannot be run: {error.strerror}") from None
    if done.returncode != 0:  # how helpers say that they know nothing; their text may hold anything
        return None
    try:
        answer = json.loads(done.stdout)
        user, secret = str(answer["Username"]), str(answer["Secret"])
    except (ValueError, KeyError, TypeError):
        raise ConfigurationError(f"{program} answered with something that is not docker's JSON") from None
    if user == "<token>":
        raise ConfigurationError(f"{program} holds an identity token for {registry}, which is not supported yet")
    return user, secret
