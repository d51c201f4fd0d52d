"""A statistical audit of the privacy promise, from outside.

It makes its own neighbouring tables, queries them through the library's public interface, and computes a
lower bound of the privacy that the answers cost. It does not know how noise is made or sensitivities are
computed.

designs               pairs of neighbouring tables and the questions about them
answer_designs        designs for answers, quality, tuning and prepared answers
explanation_designs   designs for explanation tables
evidence              likelihood ratios of released numbers, and lower bounds of ρ from them
confidence_bounds     exact bounds of probabilities and means
privacy_audit         runs the designs; also checks the numbers for traces of floating point
"""
