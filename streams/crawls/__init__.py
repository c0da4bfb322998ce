"""What is known of the crawls: their specs, seeds and counters.

Decides what a typed seed and spec mean (`plan`), how they are announced (`submit`), how every
process learns of them (`directory`), and when a count becomes part of a total (`progress`).
Imports `kafka` and below.
"""
