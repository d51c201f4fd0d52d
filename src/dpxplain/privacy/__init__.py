"""Sensitivities, noise scales, intervals and mechanisms; pure maths, no data, no database."""
