"""Which of many instructions are refused."""

import pytest

import warpsim


@pytest.fixture
def rules():
    """The rule that refuses each of some instructions behind a head, by its number from 1. Some rules are looked at only
    where all others hold, and not every finding of a long list is reported: what is refused is taken out until the rest loads. What is
    for a pair of CTAs is apart from the rest, as a function has one or the other."""

    def numbers(head: str, instructions: list[str]) -> dict[int, str]:
        pairs = {number for number, text in enumerate(instructions, 1) if "cta_group::2" in text}
        every = set(range(1, len(instructions) + 1))
        return {**among(head, instructions, every - pairs), **among(head, instructions, pairs)}

    def among(head: str, instructions: list[str], chosen: set[int]) -> dict[int, str]:
        found: dict[int, str] = {}
        for _ in range(len(chosen) + 1):
            left = chosen - found.keys()
            kept = [text if number in left else "" for number, text in enumerate(instructions, 1)]
            try:
                warpsim.load(head + "\n".join(kept) + "\nret;\n}\n")
            except warpsim.PtxError as error:
                found = {finding.line - head.count("\n"): finding.rule for finding in reversed(error.findings)} | found
            else:
                break
        return found

    return numbers


@pytest.fixture
def refused(rules):
    """Numbers, from 1, of the instructions that are refused behind a head."""
    return lambda head, instructions: set(rules(head, instructions))
