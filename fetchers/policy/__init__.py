"""Decisions of the fetch stage: pure functions of a state, an event, the time and a random number.

Nothing here reads a clock, draws a number, or does I/O, so that an hour of crawling is a test of
milliseconds.
"""
