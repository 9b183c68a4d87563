"""The ``fleetbeat`` command."""
