"""Reproduces every table and figure of the paper's evaluation beside our own results (`make experiments`)."""
