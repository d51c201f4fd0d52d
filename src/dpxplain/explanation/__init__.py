"""Families of predicates and their influences, computed from grouped counts."""
