"""Pure decisions: no clock, environment, randomness or I/O unless passed in."""
