"""Which predicates may explain, and how much each one does: pure maths over grouped counts."""
