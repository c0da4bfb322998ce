"""From bytes to characters, and from characters to dates.

Decides in which encoding a body is (`charset`: the table by format, and the order of asking;
`declared`: what a document says of itself; `detect`: what it looks like; `encodings`: what a label
means). Imports no other room of `parsers`.
"""
