"""The public face: loading, launching, devices, recorded cases."""
