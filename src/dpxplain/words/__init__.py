"""Everything that people read, as templates beside the rules that choose them. Plain values in, text out."""
