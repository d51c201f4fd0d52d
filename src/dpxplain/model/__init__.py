"""Frozen values that the packages pass to each other."""
