"""The only package that opens confidential values, and it does so only to add noise.

Every release states its sensitivity and its ρ. `authorise` asks OpenDP's privacy map what the release costs
and raises if that is not the planned cost. Entry points are sealed: their exceptions carry no values.
"""
