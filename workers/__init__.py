"""Celery workers: thin tasks around ``fleetbeat``. One file a step; ``chain.py`` tells the whole story."""
