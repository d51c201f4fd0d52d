"""Speed, as ratios against the bare engine in the same run: `make bench`."""
