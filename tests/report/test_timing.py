"""The table of where the time of a launch went."""

from warpsim.report.profile import LineTime, Timing


def test_lines_that_took_longest():
    """Forty of them, in the order of the code; the others are counted."""
    lines = tuple(LineTime(line, "ret;", interpreted=line * 7 % 43 / 1e3) for line in range(1, 43))
    table = str(Timing(0, 0, 0, 0, 1, 0, 0, "", lines)).splitlines()[2:]

    slowest = sorted(range(1, 43), key=lambda line: line * 7 % 43)[2:]
    assert [int(row.split()[0]) for row in table[:-1]] == sorted(slowest)
    assert table[-1] == "(2 more lines, which took less)"
