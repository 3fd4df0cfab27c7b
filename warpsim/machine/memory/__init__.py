"""The memories of a launch and the ports through which instructions reach them."""
