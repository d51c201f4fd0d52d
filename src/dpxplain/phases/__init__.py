"""The three phases. Each file reads top-down: plan, reserve, measure, release."""
