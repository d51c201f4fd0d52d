"""Where the data are and how they are counted; the only rooms that see rows."""
