"""What a body is, whether it is safe to parse, and its content as the format has it.

One file a format; `html` is the only door to selectolax. Imports `text`.
"""
