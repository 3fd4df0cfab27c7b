"""Pure array functions: the hardware's arithmetic, to the bit. No PTX names, no lanes, no state.

::

    integer, floating, narrow, convert, bits      scalar arithmetic and rounding, conversions between formats
    approx, rounded                               approximate units; correct rounding
    operands -> matrix | plain_matrix | emulated  dot products: models of tensor cores; exact products; emulated products
    video, arrays                                 helpers of video instructions; small reductions, large temporaries

Arrays in, arrays out, of any shapes that broadcast.
"""
