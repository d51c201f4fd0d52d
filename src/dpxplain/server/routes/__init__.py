"""The routes, one module per subject. Each declares its role; authenticate.py identifies the caller."""
