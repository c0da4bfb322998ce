"""From bytes to characters, and from characters to dates.

Decides in which encoding a body is (`charset`, by what is declared; `detect`, by what it looks
like; `encodings`, what a label means). Imports no other room of `parsers`.
"""
