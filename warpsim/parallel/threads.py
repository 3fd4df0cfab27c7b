"""Local threads as the executor of ``workers=``, for compiled code, which releases Python's lock."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor


class Threads(ThreadPoolExecutor):
    """``count`` threads, which share memory."""

    def __init__(self, count: int) -> None:
        super().__init__(count, thread_name_prefix="warpsim")
