"""The document for Perfetto, held against the rules of the Trace Event Format (Google, "Trace Event Format": complete, async,
instant and metadata events, JSON object format)."""

import json
from pathlib import Path

import pytest

from warpsim.host.cases import run_case
from warpsim.trace import Tracer

ROOT = Path(__file__).parents[2]
METADATA = {"process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index"}
NEEDED = {
    "X": {"name", "ts", "dur", "pid", "tid"},
    "b": {"name", "cat", "id", "ts", "pid", "tid"},
    "e": {"name", "cat", "id", "ts", "pid", "tid"},
    "i": {"name", "ts", "pid", "tid", "s"},
    "M": {"name", "pid", "args"},
}


def faults(document):
    """What the format does not allow."""
    if not isinstance(document, dict) or not isinstance(document.get("traceEvents"), list):
        yield "no object with a list traceEvents"
        return
    if document.get("displayTimeUnit", "ms") not in ("ms", "ns"):
        yield "displayTimeUnit"
    open_spans, slices, named = {}, {}, set()
    for number, event in enumerate(document["traceEvents"]):
        kind = event.get("ph")
        if kind not in NEEDED:
            yield f"{number}: phase {kind!r}"
            continue
        lacks = NEEDED[kind] - event.keys()
        if lacks:
            yield f"{number}: {kind} lacks {sorted(lacks)}"
            continue
        if not isinstance(event["name"], str) or not isinstance(event.get("args", {}), dict):
            yield f"{number}: name or args"
        if any(type(event[key]) is not int for key in ("pid", "tid") if key in event):
            yield f"{number}: pid or tid"
        if any(type(event[key]) not in (int, float) or event[key] < 0 for key in ("ts", "dur") if key in event):
            yield f"{number}: ts or dur"
        if kind == "X":
            slices.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
        elif kind == "i" and event["s"] not in ("g", "p", "t"):
            yield f"{number}: scope {event['s']!r}"
        elif kind == "M":
            named.add((event["name"], event["pid"], event.get("tid")))
            if event["name"] not in METADATA:
                yield f"{number}: metadata {event['name']!r}"
        elif kind in "be":  # begin and end of one span have the same category and id, and nest
            stack = open_spans.setdefault((event["cat"], event["id"]), [])
            if kind == "b":
                stack.append(event)
            elif not stack or stack[-1]["name"] != event["name"] or stack.pop()["ts"] > event["ts"]:
                yield f"{number}: an end without its begin"
    yield from (f"{key} does not end" for key, stack in open_spans.items() if stack)
    for place, spans in slices.items():
        if ("thread_name", *place) not in named or ("process_name", place[0], None) not in named:
            yield f"{place} has no name"
        ends = []
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while ends and ends[-1] <= start:
                ends.pop()
            if ends and end > ends[-1]:
                yield f"{place}: slices overlap at {start}"
            ends.append(end)


@pytest.mark.parametrize(
    ("case", "options"),
    [
        ("programs/gemm_tma", {"async_effects": "at_wait"}),
        ("programs/copy_pipeline", {}),
        pytest.param("tests/cases/its_lock", {}, marks=pytest.mark.long),
        pytest.param("programs/gemm_specialised", {"async_effects": "at_wait"}, marks=pytest.mark.long),
        pytest.param("tests/cases/cluster_ring", {}, marks=pytest.mark.long),
        pytest.param("tests/cases/fma_oob", {"on_finding": "collect"}, marks=pytest.mark.long),
    ],
)
def test_format(case, options):
    """Every event is one of the format, spans begin before they end, slices of a thread do not overlap."""
    tracer = Tracer(2)
    run_case(ROOT / case, watchers=[tracer], **options)
    document = json.loads(tracer.trace().perfetto())

    assert list(faults(document)) == []
    assert {event["ph"] for event in document["traceEvents"]} >= {"M", "X"}


@pytest.mark.parametrize(
    "events",
    [
        [{"ph": "Z", "name": "a", "ts": 0}],
        [{"ph": "X", "name": "a", "ts": 0, "pid": 1, "tid": 1}],
        [{"ph": "X", "name": "a", "ts": t, "dur": 2, "pid": 1, "tid": 1} for t in (0, 1)],
        [{"ph": "b", "name": "a", "cat": "c", "id": "1", "ts": 0, "pid": 1, "tid": 1}],
        [{"ph": "e", "name": "a", "cat": "c", "id": "1", "ts": 0, "pid": 1, "tid": 1}],
        [{"ph": "i", "name": "a", "ts": 0, "pid": 1, "tid": 1, "s": "x"}],
        [{"ph": "X", "name": "a", "ts": -1, "dur": 1, "pid": 1, "tid": 1}],
    ],
)
def test_faults_are_found(events):
    """The check above sees what the format forbids."""
    assert list(faults({"traceEvents": events}))
