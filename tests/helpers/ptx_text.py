"""What modules of PTX begin with."""


def module_head(target: str = "sm_80", version: str = "8.0") -> str:
    """The lines in front of every declaration."""
    return f".version {version}\n.target {target}\n.address_size 64\n"
