"""Benchmarks that compare our speed with the bare engine in the same run: `make bench`."""
