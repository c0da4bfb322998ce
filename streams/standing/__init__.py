"""How far everything is: lag, what waits and until when, whether a crawl has ended, its status.

Decisions here (`drain.decide`, `status`) are pure; they read what others committed and change
nothing. Imports crawls, `kafka` and below.
"""
