"""Pure array functions: arithmetic as the hardware does it, to the bit. No PTX names, no lanes, no state.

::

    integer, floating, narrow, convert, bits      arithmetic and rounding of scalars, conversions between formats
    approx, rounded, ratios                       approximate units; correct rounding; what error-free transforms cannot do
    operands -> matrix | plain_matrix | emulated  dot products: tensor cores' models; exact ones; of no unit at all
    video, workspace                              what video instructions share; large temporaries

Arrays in, arrays out, of any shape that broadcasts.
"""
