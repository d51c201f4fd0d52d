"""Every table and figure of the paper's evaluation, and ours beside it: `make experiments`."""
