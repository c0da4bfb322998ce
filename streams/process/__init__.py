"""What a process of ours asks of its machine: exit codes, event loop, collector, guarded children.

Knows nothing of Kafka or crawls and imports nothing of `streams`.
"""
