"""What can be asked over HTTP, one module per subject. A route says whom it is for; gate.py says who asks."""
