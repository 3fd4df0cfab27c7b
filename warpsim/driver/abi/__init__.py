"""The C interface of the driver: what ``libcuda.so.1`` and ``libcudart.so`` forward to.

Each function of the libraries is a Python function here, declared with `call`; the C side (``entries.S``, ``shim.c``) has one entry
point for each and jumps through a table whose slots `warpsim.driver.abi.binding` fills at the first call.
"""
