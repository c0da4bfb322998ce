"""Dead letters: how one is written, and how it is brought back.

Any stage may import it; it imports `kafka` and below.
"""
