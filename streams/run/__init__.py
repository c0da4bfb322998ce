"""`crawl run`: one crawl on one machine, from an empty folder to the last record.

`crawl` is its order of steps; the others each own one of them. Imports every room but `cli`.
"""
