"""The race rule: accesses (`accesses`) held against the happens-before relation (`order`)."""

RULE = "race"
