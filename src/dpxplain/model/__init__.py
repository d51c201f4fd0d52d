"""Frozen values that the rooms pass to each other; no behaviour beyond describing themselves."""
