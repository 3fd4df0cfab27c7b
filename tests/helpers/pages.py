"""Opens pages in a headless Chromium, where one is installed."""

import shutil
import struct
import subprocess
import zlib

import numpy as np
import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)


class Browser:
    """Chromium with a profile of its own in ``folder``; it reaches nothing but files."""

    def __init__(self, folder):
        if CHROMIUM is None:
            pytest.skip("no Chromium is installed")
        self.folder = folder

    def dom(self, path, fragment="", **options):
        """The page's elements after its script has run."""
        return self._run(f"file://{path}{fragment}", "--dump-dom", **options)

    def screenshot(self, path, fragment="", **options):
        """What the page looks like: ``[height, width, 3]``."""
        picture = self.folder / "picture.png"
        self._run(f"file://{path}{fragment}", f"--screenshot={picture}", **options)
        return decoded(picture.read_bytes())

    def _run(self, page, *options, width=1200, height=900, dark=False):
        command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={self.folder}/profile", "--host-resolver-rules=MAP * ~NOTFOUND"]
        command += [f"--blink-settings=preferredColorScheme={0 if dark else 1}", f"--window-size={width},{height}"]
        command += ["--virtual-time-budget=3000", *options, page]
        return subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout


def decoded(png):
    """The pixels of an 8-bit PNG without a palette, as the format's specification says."""
    width, height, _, kind = struct.unpack(">IIBB", png[16:26])
    channels = {2: 3, 6: 4}[kind]
    at, packed = 8, b""
    while at < len(png):
        length, name = struct.unpack(">I4s", png[at : at + 8])
        packed += png[at + 8 : at + 8 + length] if name == b"IDAT" else b""
        at += 12 + length
    lines = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width * channels)
    above = np.zeros((width, channels), np.int64)
    out = np.zeros((height, width, channels), np.uint8)
    for y, line in enumerate(lines):
        row = _unfiltered(int(line[0]), line[1:].reshape(width, channels).astype(np.int64), above)
        out[y], above = row, row
    return out[:, :, :3]


def _unfiltered(kind, row, above):
    if kind in (0, 2):
        return (row + (above if kind == 2 else 0)) % 256
    if kind == 1:
        return np.cumsum(row, axis=0) % 256
    left, corner = np.zeros(row.shape[1], np.int64), np.zeros(row.shape[1], np.int64)
    for x in range(len(row)):
        if kind == 3:
            guess = (left + above[x]) // 2
        else:
            p = left + above[x] - corner
            far = [abs(p - left), abs(p - above[x]), abs(p - corner)]
            guess = np.where(
                (far[0] <= far[1]) & (far[0] <= far[2]), left, np.where(far[1] <= far[2], above[x], corner)
            )
        row[x] = (row[x] + guess) % 256
        left, corner = row[x], above[x]
    return row
