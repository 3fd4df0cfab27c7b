"""The rules of wgmma's registers, and what to change: the same words while running and without."""

from __future__ import annotations

FENCE, IN_FLIGHT, UNCOMMITTED = "wgmma-missing-fence", "wgmma-in-flight", "wgmma-uncommitted"
WAIT_ADVICE = "wgmma.wait_group for the group of that wgmma comes first"
SERIALISED = {
    "read": "; ptxas injects warpgroup.wait (C7517) or serialises the wgmma, for non wgmma instructions read accumulator"
    " registers between start and end of the pipeline stage (C7514)",
    "written": "; ptxas serialises the wgmma, for non wgmma instructions define accumulator registers between start and end"
    " of the pipeline stage (C7515)",
}
ADVICE = {
    FENCE: "wgmma.fence.sync.aligned after the last access to the registers and before the wgmma; ptxas injects"
    " warpgroup.arrive (C7519)",
    IN_FLIGHT: WAIT_ADVICE,
    UNCOMMITTED: "wgmma.commit_group before wgmma.wait_group",
}
