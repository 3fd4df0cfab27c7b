"""The parameters of cuda.h's functions, a letter each, as `warpsim.driver.abi.calls` has them.

driver_signatures.py OUT.txt [FOLDER]     with a toolkit in FOLDER (/usr/local/cuda) and a C compiler
"""

import re
import subprocess
import sys

HANDLES = {
    "CUcontext": "c", "CUmodule": "m", "CUlibrary": "l", "CUfunction": "f", "CUkernel": "k", "CUstream": "s", "CUevent": "e",
    "CUgraph": "g", "CUgraphNode": "n", "CUgraphExec": "x", "CUmemoryPool": "p", "CUlinkState": "j", "CUuserObject": "u",
    "CUdevice": "D", "int": "I", "float": "r",
}  # fmt: skip
WIDE = ("size_t", "unsigned long long", "CUdeviceptr", "cuuint64_t", "CUarray", "CUmipmappedArray", "CUtexref", "CUsurfref",
        "CUtexObject", "CUsurfObject", "CUexternalMemory", "CUexternalSemaphore", "CUmemGenericAllocationHandle",
        "CUgraphicsResource", "CUgreenCtx", "CUasyncCallbackHandle", "CUlogsCallbackHandle", "CUdevResourceDesc",
        "CUhostFn", "CUstreamCallback", "CUasyncCallback", "CUlogsCallback", "CUoccupancyB2DSize", "CUmemLocation",
        "CUipcMemHandle", "CUipcEventHandle")  # fmt: skip
"""What has 64 bits, or is a structure by value."""


def letter(parameter):
    """The letter of a parameter: ``*`` for a pointer to what may be written, ``&`` for one to what is only read."""
    words = re.sub(r"\*", " * ", parameter).split()
    if "*" in words:
        return "&" if words[0] == "const" and words.count("*") == 1 else "*"
    kind = " ".join(words[:-1]) if len(words) > 1 else words[0]
    kind = re.sub(r"_v[12]$", "", kind)
    return HANDLES.get(kind) or ("P" if kind in WIDE else "U")


def functions(folder, *macros):
    """Names and letters, as the macros make the header declare them."""
    command = ["cc", "-E", "-P", f"-I{folder}/include", *macros, "-xc", "-"]
    given = "#include <cuda.h>\n#include <cudaProfiler.h>\n"
    text = subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout
    return {
        found[1]: "".join(letter(p) for p in found[2].split(",") if p.strip() != "void")
        for found in re.finditer(r"CUresult\s+(cu\w+)\s*\(([^;{]*?)\)\s*;", text)
    }


def main(path, folder="/usr/local/cuda"):
    """Write all that a program of any version may ask for."""
    known = functions(folder)
    for macro in ("-D__CUDA_API_VERSION_INTERNAL", "-DCUDA_API_PER_THREAD_DEFAULT_STREAM"):
        known = functions(folder, macro) | known
    with open(path, "w") as stream:
        stream.writelines(f"{name} {letters}".rstrip() + "\n" for name, letters in sorted(known.items()))


if __name__ == "__main__":
    main(*sys.argv[1:])
