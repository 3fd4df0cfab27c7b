"""Small modules: which ptxas takes, and the line of its first error.

modules.py FILE     needs ptxas 13.0; FILE lists modules, one to a line without the head that `HEAD` is, ``\\n`` for the end of
a line, and is written anew: the line of the error (0: accepted, -1: an error without a line), then the module
"""

import re
import subprocess
import sys
from pathlib import Path

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def verdict(text):
    """What ptxas says of a module."""
    command = ["ptxas", "-arch=sm_90a", "-", "-o", "/dev/null"]
    done = subprocess.run(command, input=f"{HEAD}{text}\n", capture_output=True, text=True, check=False)
    found = re.search(r"line (\d+); (?:error|fatal)", done.stderr)
    return 0 if done.returncode == 0 else int(found[1]) if found else -1


def main():
    """Ask for each."""
    file = Path(sys.argv[1])
    texts = [line.rpartition("\t")[2] for line in file.read_text().splitlines()]
    rows = [f"{verdict(text.replace(chr(92) + 'n', chr(10)))}\t{text}" for text in texts]
    file.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
