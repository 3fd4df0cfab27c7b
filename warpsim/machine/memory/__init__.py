"""The memories of a launch, and the ports through which instructions access them."""
