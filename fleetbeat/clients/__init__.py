"""The only code that talks to the outside. Foreign exceptions stop here."""
