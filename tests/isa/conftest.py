"""Which of many instructions are refused."""

import pytest

import warpsim


@pytest.fixture
def refused():
    """Numbers, from 1, of the instructions that are refused behind a head. Some rules are looked at only where all others
    hold, and not every finding of a long list is reported: what is refused is taken out until the rest loads."""

    def numbers(head: str, instructions: list[str]) -> set[int]:
        found: set[int] = set()
        for _ in range(len(instructions) + 1):
            kept = ["" if number in found else text for number, text in enumerate(instructions, 1)]
            try:
                warpsim.load(head + "\n".join(kept) + "\nret;\n}\n")
            except warpsim.PtxError as error:
                found |= {finding.line - head.count("\n") for finding in error.findings}
            else:
                break
        return found

    return numbers
