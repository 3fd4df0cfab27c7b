"""Where the elements of matrices and tensors are: in lanes' registers, in shared memory, in boxes. Pure functions of
indices.

::

    algebra          shape:stride layouts in CuTe's notation
    fragment         which lane holds which element; registers to matrices and back
    fragments, wmma_fragments        those of the instructions
    instructions     from an instruction's spelling to its fragments; pictures, drawing: text, SVG and HTML of them
    descriptors, tensor_map, boxes, mbarriers     the words that describe shared memory and tensors
"""
