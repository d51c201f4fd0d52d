"""The three phases: measure an answer, assess a question about it, explain the gap."""
