"""Reads a credential at the moment it is used, so that a rotated file or variable counts from the next connection."""

from __future__ import annotations

from pathlib import Path

from fleetbeat import settings
from fleetbeat.errors import ConfigurationError
from fleetbeat.model import Credential, SecretText

#: bytes; a bundle of CA certificates is the largest thing that is rightly named here
_MAX_FILE = 1024 * 1024


def read(credential: Credential) -> SecretText:
    """The secret's text; line ends at its end are dropped, as files and command output carry them.

    Raises ConfigurationError that names the file or variable, never its content.
    """
    if credential.inline is not None:
        text = credential.inline.reveal()
        where = "the inline credential"
    elif credential.file is not None:
        where = f"credential file {credential.file}"
        text = _file(credential.file, where)
    elif credential.env is not None:
        where = f"credential variable {credential.env}"
        text = settings.variable(credential.env) or ""
        if not text:
            raise ConfigurationError(f"{where} is not set in this process's environment")
    else:
        raise ConfigurationError("a credential must have one of: inline text, file, env")
    text = text.rstrip("\r\n")
    if not text:
        raise ConfigurationError(f"{where} is empty")
    return SecretText(text)


def _file(name: str, where: str) -> str:
    try:
        with Path(name).open("rb") as file:
            content = file.read(_MAX_FILE + 1)
        if len(content) <= _MAX_FILE:
            return content.decode("utf-8")
    except OSError as error:
        raise ConfigurationError(f"{where} cannot be read: {error.strerror or 'not a readable path'}") from None
    except ValueError:  # UnicodeDecodeError would carry the content
        raise ConfigurationError(f"{where} is not UTF-8 text") from None
    raise ConfigurationError(f"{where} is larger than {_MAX_FILE} bytes")
