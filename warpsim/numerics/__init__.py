"""Pure array functions: the hardware's arithmetic, to the bit. No PTX names, no lanes, no state.

::

    integer, floating, convert                    scalar arithmetic and rounding, conversions between formats
    approx, rounded                               approximate units; correct rounding
    matrix, plain_matrix, emulated                dot products: models of tensor cores; exact products; emulated products
    arrays                                        halves of registers, small reductions, large temporaries

Arrays in, arrays out, of any shapes that broadcast.
"""
