"""How results look: terminal text, notebook HTML, charts, reports. Displaying never spends."""
