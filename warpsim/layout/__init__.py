"""Where the elements of matrices and tensors are: in lanes' registers, in shared memory, in boxes. Pure functions of
indices.

::

    algebra          shape:stride layouts in CuTe's notation
    fragment         which lane holds which element; fragments, wmma_fragments, wgmma_fragments: per instruction
    instructions     from an instruction's spelling to its fragments; pictures: text, SVG and HTML of them
    registers        gather registers into matrices by a fragment, and scatter them back
    descriptors, tensor_map, boxes, mbarriers     the words that describe shared memory and tensors
"""
