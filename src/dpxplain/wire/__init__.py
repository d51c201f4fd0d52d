"""One JSON language for history, server and client."""
