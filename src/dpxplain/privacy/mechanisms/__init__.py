"""The only room that opens confidential values, and it does so only to add noise.

Every release states its sensitivity and its ρ; `authorise` asks OpenDP's privacy map what the release
costs and refuses to run if that is not the plan. Entry points are sealed: whatever goes wrong inside, no
value leaves.
"""
