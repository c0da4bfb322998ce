"""What a page says in a form made for machines, or is asked for: structured data, selectors, text.

Imports `documents` and `text`.
"""
