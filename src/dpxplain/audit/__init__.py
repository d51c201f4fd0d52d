"""A statistical audit of the privacy promise, from outside.

It makes its own neighbouring tables, queries them through the library's public interface, and computes a
lower bound of the privacy that the answers cost. It does not know how noise is made or sensitivities are
computed.

designs         pairs of neighbouring tables and the questions about them
privacy_audit   runs the designs and computes lower bounds of ρ from what they release
"""
