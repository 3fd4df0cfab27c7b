"""What can be said of a program without running it: its flow graph and, on that, the passes of ``check --strict``.

A typed `Program` enters; blocks in scheduling order (`flow`, which the machine binds too) and findings (`strict`) leave.
"""
