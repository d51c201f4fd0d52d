"""A statistical audit of the privacy promise, from outside.

It makes neighbouring tables of its own, asks the public face of the library about them, and bounds from
below how much privacy the answers cost. It knows nothing of how noise is made or sensitivities are computed.

designs               pairs of neighbouring tables and what is asked about them
answer_designs        those of phase 1, of quality and of prepared answers
explanation_designs   those of the explanation tables
likelihood            from released numbers to a likelihood ratio
confidence_bounds     exact bounds of probabilities and means
divergence            what a probability pair says about ρ, and the (ε, δ) curve of ρ
evidence              thresholds chosen on one half of the releases, tested on the other
lattice               whether the released numbers betray the floating-point numbers they were made of
privacy_audit         runs the designs
"""
