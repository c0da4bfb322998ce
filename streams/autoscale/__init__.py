"""How many workers each role needs, and making it so.

A reading of the group's offsets (`offsets`), and for fetchers of the backlog that politeness
allows now (`eligible`), becomes the work of each partition (`signals`). The pure policy (`policy`)
turns readings into a number of workers with reasons; the loop (`loop`) hands that number to a back
end (`backends`), logs the decision and starts again. What is unknown or old changes nothing.
"""
