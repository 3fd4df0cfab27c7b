"""The playground's files: warpsim as an archive, the examples; and the doors to it below the pages' PTX."""

from __future__ import annotations

import base64
import html
import io
import json
import re
import zipfile
import zlib
from functools import cache
from pathlib import Path
from typing import Any

from docs.tools.broken import BREAKS, ROOT, without

LEFT_OUT = {"driver", "compat", "capture", "testing", "__pycache__"}
"""Parts of the package that a browser cannot use."""
DOOR = "PLAYGROUND#"
"""Where a page means the playground; `doors` knows how far away it is."""
BLOCK = re.compile(
    r"(?P<mark>^<!-- launch: (?P<launch>[^\n]*) -->\n\n?)(?P<fence>^```ptx[^\n]*\n(?P<text>.*?)^```\n)", re.M | re.S
)


def fragment(shared: dict[str, Any]) -> str:
    """A program and its launch as share.js reads them."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(json.dumps(shared).encode()) + packer.flush()
    return "p=" + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def door(shared: dict[str, Any]) -> str:
    """A link that opens a program in the playground."""
    return f'<a class="playground" href="{DOOR}{fragment(shared)}">Open in the playground</a>'


def doors(markdown: str, url: str) -> str:
    """The text of the page at ``url`` with a door below each PTX block that says how it is launched."""
    text = BLOCK.sub(lambda m: f"{m['fence']}\n{door({'text': m['text'], 'launch': m['launch']})}\n", markdown)
    return text.replace(DOOR, "../" * url.count("/") + "playground/#")


def of_program(name: str, *, broken: bool) -> dict[str, Any]:
    """A bundled program as an example, whole or without one of its lines."""
    found = BREAKS[name]
    checks = f" --checks {found.checks}" if broken and found.checks != "default" else ""
    launch = f"replay {name}{checks}"
    return {"example": name, "launch": launch, **({"without": removed(name)} if broken else {})}


def removed(name: str) -> list[int]:
    """The lines of kernel.ptx that the broken program lacks."""
    text = (ROOT / "programs" / name / "kernel.ptx").read_text(encoding="utf-8")
    pairs = zip(text.split("\n"), without(text, BREAKS[name]).split("\n"), strict=True)
    return [number for number, (old, new) in enumerate(pairs, 1) if old != new]


HEAVY = {"gemm_fp8_scaled", "gemm_multicast", "gemm_specialised", "gemm_mxfp8", "gemm_tcgen05", "gemm_tcgen05_pair", "gemm_tma", "attention_overlapped", "stream_k"}  # fmt: skip
"""Programs whose launch takes many seconds under the interpreter."""
FIRST = ("fence", "reverse", "add", "mma")
"""The examples of this folder's own, in their order."""


def example(file: str) -> dict[str, Any]:
    """An example of this folder's own."""
    text = (ROOT / "docs" / "playground" / "examples" / file).read_text(encoding="utf-8")
    title, launch = re.findall(r"^// (?:title|launch): (.*)$", text, re.M)
    return {"title": title, "launch": launch, "text": re.sub(r"^// (?:title|launch): .*\n", "", text, flags=re.M)}


def examples() -> list[dict[str, Any]]:
    """What the page offers."""
    from docs.tools.gallery import ENTRIES

    made = [example(f"{name}.ptx") for name in FIRST]
    for name, entry in ENTRIES.items():
        if name not in HEAVY:
            made.append({"title": entry.title, **of_program(name, broken=False)})
            if BREAKS[name].ptx:
                made.append({"title": f"{entry.title}, one line missing", **of_program(name, broken=True)})
    return made


@cache
def archive() -> bytes:
    """What the worker unpacks: the package, the bundled programs, and playground.py."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as zipped:
        for folder, inside in ((ROOT / "warpsim", "warpsim"), (ROOT / "programs", "warpsim/programs")):
            for path in sorted(folder.rglob("*")):
                if path.is_file() and not LEFT_OUT & set(path.relative_to(folder).parts):
                    _add(zipped, path, f"{inside}/{path.relative_to(folder).as_posix()}")
        _add(zipped, ROOT / "docs" / "playground" / "playground.py", "playground.py")
    return out.getvalue()


def _add(zipped: zipfile.ZipFile, path: Path, name: str) -> None:
    """With a fixed time, so that equal files make an equal archive."""
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    zipped.writestr(info, path.read_bytes())


def files() -> dict[str, bytes]:
    """The playground's generated files by their place in the site."""
    return {"playground/warpsim.zip": archive(), "playground/examples.json": json.dumps(examples()).encode()}


def page(text: str, pyodide: str) -> str:
    """The playground's page, with the address from which Pyodide comes."""
    return text.replace("PYODIDE", html.escape(pyodide))
