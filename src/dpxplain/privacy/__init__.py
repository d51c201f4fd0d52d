"""What noise a release needs, what it costs and what it tells: pure maths, no data, no database."""
