"""The rules for wgmma registers and their advice, shared by static and dynamic checks."""

from __future__ import annotations

FENCE, IN_FLIGHT, UNCOMMITTED = "wgmma-missing-fence", "wgmma-in-flight", "wgmma-uncommitted"
WAIT_ADVICE = "wait for that wgmma's group first (wgmma.wait_group)"
SERIALISED = {
    "read": "; ptxas inserts warpgroup.wait (C7517) or serialises the wgmma (C7514)",
    "written": "; ptxas serialises the wgmma (C7515)",
}
ADVICE = {
    FENCE: "add wgmma.fence.sync.aligned between the last access to the registers and the wgmma; ptxas inserts"
    " warpgroup.arrive (C7519)",
    IN_FLIGHT: WAIT_ADVICE,
    UNCOMMITTED: "execute wgmma.commit_group before wgmma.wait_group",
}
