"""Inference from released marginals: estimates, gradients, boxes and forecasts."""
