"""Threads of this process as the executor of ``workers=``: for compiled code, which holds no lock of Python's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor


class Threads(ThreadPoolExecutor):
    """``count`` threads. Nothing is shipped to them."""

    def __init__(self, count: int) -> None:
        super().__init__(count, thread_name_prefix="warpsim")
