"""How results look: terminal tables, notebook HTML, charts, reports, exports. Displaying never spends."""
