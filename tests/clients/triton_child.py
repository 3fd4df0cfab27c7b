"""Imported by the server of processes that Triton's tests start, before any of them: the simulated GPU is theirs, too."""

import triton_plugin

triton_plugin.prepare()
