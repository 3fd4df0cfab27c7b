"""An nvcc that compiles to PTX instead of a cubin, and keeps PTX beside machine code, for programs that compile at run time
(CuPy's backend ``nvcc``, PyTorch's extensions).

    python FOLDER/nvcc [nvcc's own options]

``WARPSIM_NVCC`` is the compiler. The output keeps the name that the program expects; the driver recognizes it as PTX.
Objects that are linked to a cubin give their PTX, linked.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys


def translated(words: list[str]) -> list[str]:
    """The command with PTX as its output if it compiles a source to a cubin, with PTX beside each machine code that it
    asks for by ``code=`` if it compiles to an object, otherwise unchanged."""
    sources = [word for word in words if word.endswith((".cu", ".cc", ".cpp")) and word[0] != "-"]
    if {"-c", "--compile", "-dc", "--device-c"} & set(words):
        targets = " ".join(re.findall(r"\bcode=(\S+)", " ".join(words)))
        codes = set(re.findall(r"\b(?:sm|compute)_\w+", targets))
        kept = sorted({code[3:] for code in codes if code[0] == "s"} - {code[8:] for code in codes if code[0] == "c"})
        return [*words, *(f"-gencode=arch=compute_{arch},code=compute_{arch}" for arch in kept)]
    if not {"-cubin", "--cubin"} & set(words) or len(sources) != 1:
        return words
    made = ["-ptx" if word in ("-cubin", "--cubin") else word.replace("code=sm_", "code=compute_") for word in words]
    if not any(word == "-o" or word.startswith(("--output-file", "-o=")) for word in words):
        made += ["-o", os.path.splitext(os.path.basename(sources[0]))[0] + ".cubin"]
    return made


def link(words: list[str]) -> None:
    """Put the linked PTX of objects in the place of the cubin that they were linked to for the device."""
    sys.path += os.environ.get("WARPSIM_PATH", "").split(os.pathsep)
    from warpsim.driver.merging import linked
    from warpsim.driver.modules import members, section

    place = words.index("-o")
    given = [*words[:place], *words[place + 2 :]]
    objects = [word for word in given if word.endswith(".o")]
    sm = max(map(int, re.findall(r"\bsm_(\d+)", " ".join(word for word in given if word not in objects))), default=90)
    texts = [text for path in objects for text in members(section(path, b"__nv_relfatbin"), sm)]
    if texts:
        with open(words[place + 1], "wb") as file:
            file.write(linked(texts) + b"\0")


if __name__ == "__main__":
    words = translated(sys.argv[1:])
    status = subprocess.call([*shlex.split(os.environ.get("WARPSIM_NVCC") or "nvcc"), *words])
    if not status and {"-cubin", "--cubin"} & set(words) and {"-dlink", "--device-link"} & set(words) and "-o" in words:
        link(words)
    sys.exit(status)
