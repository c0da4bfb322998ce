"""`python -m streams.cli`: the command `crawl` where its script is not on the path."""

from streams.cli import main

main()
