"""What a process tells of itself: metrics, logs, liveness, the line it logs now and then.

Everything else may import it; of `streams` it imports the settings only. A metric, its labels and
its help are decided here; when it moves is decided where the thing happens.
"""
